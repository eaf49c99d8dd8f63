"""Exceptions of zipwire. Each message says what is wrong and, on a line that begins with `help:`, what to do about it where that is known."""


class Error(Exception):
    """Any error of zipwire."""

    def __str__(self) -> str:
        # `KeyError` would show the representation of the text.
        return str(self.args[0]) if self.args else ""


class FormatError(Error, ValueError):
    """Compressed bytes that are damaged, cut, extended, or not zipwire's."""


class VersionError(FormatError):
    """Compressed bytes of a later version of the format than this zipwire reads."""


class BaseError(Error, ValueError):
    """A base that is missing, or has other values, another type or another shape than the one that differences were taken from."""


class CodecError(Error, ValueError):
    """A codec that does not exist or does not take these values."""


class TensorError(Error, TypeError):
    """An object that cannot be compressed, or an output that does not fit."""


class FileError(Error, OSError):
    """A file that cannot be read or written, or is of a format that is not read."""


class MissingFileError(FileError, FileNotFoundError):
    """A file that does not exist."""


class FileThereError(FileError, FileExistsError):
    """An output that exists already and was not to be replaced."""


class NotThereError(Error, KeyError):
    """A tensor or checkpoint of a name that does not exist."""


class StoreError(Error):
    """A store of checkpoints that is locked, damaged, or not one."""


class CommandError(Error, RuntimeError):
    """A simulation, sweep or calibration that failed; the message is the command's, with place and remedy."""
