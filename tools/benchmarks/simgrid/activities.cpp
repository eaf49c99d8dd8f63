// Loads that put bytes on many links at once, in SimGrid: parallel tasks without latency, shared by its bottleneck fairness.
//
//     activities [--cfg=SETTING:VALUE...] < DESCRIPTION > TIMES
//
// Settings are SimGrid's; the model and its solver are set here.
//
// The description, as numbers with blanks between them:
//
//     LINKS   then per link:  BYTES_PER_S
//     LOADS   then per load:  START_S ROUTES   then per route:  BYTES COUNT LINK...
//
// All bytes of a load move at one pace, and each route's over all links of that route. The times: a line `FINISH_S` per load.

#include <simgrid/s4u.hpp>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Load {
    double start_s, finish_s = 0;
    // The route i has bytes[i] from the host 2i to the host 2i + 1.
    std::vector<sg4::Host*> hosts;
    std::vector<double> bytes;
};

static void move(Load& load)
{
    const size_t count = load.hosts.size();
    std::vector<double> matrix(count * count);
    for (size_t i = 0; i < load.bytes.size(); i++)
        matrix[2 * i * count + 2 * i + 1] = load.bytes[i];
    sg4::this_actor::sleep_until(load.start_s);
    sg4::this_actor::parallel_execute(load.hosts, std::vector<double>(count), matrix);
    load.finish_s = sg4::Engine::get_clock();
}

int main(int argc, char** argv)
{
    sg4::Engine engine(&argc, argv);
    for (const char* setting : {"host/model:ptask_L07", "host/solver:bmf"})
        sg4::Engine::set_config(setting);

    std::cin.exceptions(std::ios::failbit | std::ios::badbit);
    auto* zone = sg4::create_full_zone("cluster");
    size_t link_count, load_count;
    std::cin >> link_count;
    std::vector<const sg4::Link*> links;
    for (size_t i = 0; i < link_count; i++) {
        double bytes_per_s;
        std::cin >> bytes_per_s;
        links.push_back(zone->create_link("link " + std::to_string(i), bytes_per_s)->set_latency(0)->seal());
    }
    std::cin >> load_count;
    std::vector<Load> loads(load_count);
    size_t host_count = 0;
    const auto new_host = [&] { return zone->create_host("host " + std::to_string(host_count++), 1e9)->seal(); };
    for (Load& load : loads) {
        size_t route_count;
        std::cin >> load.start_s >> route_count;
        for (size_t i = 0; i < route_count; i++) {
            double bytes;
            size_t hop_count, link;
            std::cin >> bytes >> hop_count;
            std::vector<sg4::LinkInRoute> route;
            for (size_t hop = 0; hop < hop_count; hop++) {
                std::cin >> link;
                route.emplace_back(links.at(link));
            }
            sg4::Host *src = new_host(), *dst = new_host();
            zone->add_route(src->get_netpoint(), dst->get_netpoint(), nullptr, nullptr, route, false);
            load.hosts.insert(load.hosts.end(), {src, dst});
            load.bytes.push_back(bytes);
        }
    }
    zone->seal();

    for (Load& load : loads)
        sg4::Actor::create("load", load.hosts.at(0), move, std::ref(load));
    engine.run();
    for (const Load& load : loads)
        printf("%.17g\n", load.finish_s);
}
