"""What tests have in common."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help="also tests that take gigabytes of memory")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--large"):
        for item in items:
            if "large" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes gigabytes: --large"))
