// Flows over links of fixed capacity in SimGrid: pure max-min fairness, latency as a delay of the start.
//
//     flows [--cfg=SETTING:VALUE...] < DESCRIPTION > TIMES
//
// Settings are SimGrid's; those that make it pure max-min are set here.
//
// The description, as numbers with blanks between them:
//
//     LINKS   then per link:  BYTES_PER_S
//     RANKS ROUTES   then per route:  SRC DST LATENCY_S COUNT LINK...
//     ORDER FLOWS    then per flow:   SRC DST BYTES NOT_BEFORE_S
//
// ORDER is that of zipwire's workload `transfers`. burst: each flow starts at its own time. chain: also not before the
// sender's previous flow has ended. sendrecv: the i-th send and the i-th receive of a rank are its step i; a flow starts
// when both of its ends are in the step that holds it. A latency runs when the flow starts, and then its bytes move.
//
// The times: a line `START_S FINISH_S` per flow, and then `cpu SECONDS`, what one core was busy with the simulation
// itself, in user and system mode: neither reading nor building the platform counts.

#include <simgrid/s4u.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Flow {
    int src, dst;
    uint64_t bytes;
    double not_before_s;
    double latency_s = 0, start_s = 0, finish_s = 0;
};

static std::vector<sg4::Host*> hosts;
static std::vector<Flow> flows;

static double cpu_s()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) { return time.tv_sec + time.tv_usec * 1e-6; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One actor starts all flows: actors per flow would be most of what SimGrid does.
static void burst()
{
    for (Flow& flow : flows)
        flow.start_s = flow.not_before_s;
    std::vector<size_t> order(flows.size());
    std::iota(order.begin(), order.end(), 0);
    const auto moves_s = [](size_t i) { return flows[i].start_s + flows[i].latency_s; };
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return moves_s(a) < moves_s(b); });
    std::vector<sg4::CommPtr> comms(flows.size());
    for (size_t i : order) {
        sg4::this_actor::sleep_until(moves_s(i));
        comms[i] = sg4::Comm::sendto_async(hosts[flows[i].src], hosts[flows[i].dst], flows[i].bytes);
    }
    for (size_t i = 0; i < flows.size(); i++) {
        comms[i]->wait();
        flows[i].finish_s = comms[i]->get_finish_time();
    }
}

static void move(Flow& flow)
{
    sg4::this_actor::sleep_until(flow.not_before_s);
    flow.start_s = sg4::Engine::get_clock();
    sg4::this_actor::sleep_for(flow.latency_s);
    sg4::Comm::sendto(hosts[flow.src], hosts[flow.dst], flow.bytes);
    flow.finish_s = sg4::Engine::get_clock();
}

static void chain(const std::vector<size_t>& sends)
{
    for (size_t i : sends)
        move(flows[i]);
}

// Both ends of each flow, and the actor that moves it, meet twice: before it starts and when it has ended.
struct Meeting {
    sg4::SemaphorePtr offered = sg4::Semaphore::create(0);
    sg4::SemaphorePtr ended = sg4::Semaphore::create(0);
};
static std::vector<Meeting> meetings;

static void steps(const std::vector<size_t>& sends, const std::vector<size_t>& receives)
{
    for (size_t step = 0; step < std::max(sends.size(), receives.size()); step++) {
        std::vector<size_t> own;
        if (step < sends.size())
            own.push_back(sends[step]);
        if (step < receives.size())
            own.push_back(receives[step]);
        for (size_t i : own)
            meetings[i].offered->release();
        for (size_t i : own)
            meetings[i].ended->acquire();
    }
}

static void meet(size_t i)
{
    meetings[i].offered->acquire();
    meetings[i].offered->acquire();
    move(flows[i]);
    meetings[i].ended->release();
    meetings[i].ended->release();
}

int main(int argc, char** argv)
{
    sg4::Engine engine(&argc, argv);
    for (const char* setting : {"network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1",
                                "network/weight-S:0", "network/TCP-gamma:0", "network/crosstraffic:0"})
        sg4::Engine::set_config(setting);

    std::cin.exceptions(std::ios::failbit | std::ios::badbit);
    size_t link_count, route_count, flow_count;
    int rank_count;
    auto* zone = sg4::create_full_zone("cluster");
    std::cin >> link_count;
    std::vector<const sg4::Link*> links;
    for (size_t i = 0; i < link_count; i++) {
        double bytes_per_s;
        std::cin >> bytes_per_s;
        links.push_back(zone->create_link("link " + std::to_string(i), bytes_per_s)->set_latency(0)->seal());
    }
    std::cin >> rank_count >> route_count;
    for (int i = 0; i < rank_count; i++)
        hosts.push_back(zone->create_host("rank " + std::to_string(i), 1e9)->seal());
    std::map<std::pair<int, int>, double> latency_s;
    for (size_t i = 0; i < route_count; i++) {
        int src, dst;
        double latency;
        size_t count;
        std::cin >> src >> dst >> latency >> count;
        std::vector<sg4::LinkInRoute> route;
        for (size_t hop = 0; hop < count; hop++) {
            size_t link;
            std::cin >> link;
            route.emplace_back(links.at(link));
        }
        zone->add_route(hosts.at(src)->get_netpoint(), hosts.at(dst)->get_netpoint(), nullptr, nullptr, route, false);
        latency_s[{src, dst}] = latency;
    }
    zone->seal();

    std::string order;
    std::cin >> order >> flow_count;
    std::vector<std::vector<size_t>> sends(rank_count), receives(rank_count);
    for (size_t i = 0; i < flow_count; i++) {
        Flow flow;
        std::cin >> flow.src >> flow.dst >> flow.bytes >> flow.not_before_s;
        flow.latency_s = latency_s.at({flow.src, flow.dst});
        sends.at(flow.src).push_back(i);
        receives.at(flow.dst).push_back(i);
        flows.push_back(flow);
    }

    if (order == "burst") {
        sg4::Actor::create("all", hosts[0], burst);
    } else if (order == "chain") {
        for (int rank = 0; rank < rank_count; rank++)
            sg4::Actor::create("sender", hosts[rank], chain, sends[rank]);
    } else if (order == "sendrecv") {
        meetings = std::vector<Meeting>(flow_count);
        for (int rank = 0; rank < rank_count; rank++)
            sg4::Actor::create("rank", hosts[rank], steps, sends[rank], receives[rank]);
        for (size_t i = 0; i < flow_count; i++)
            sg4::Actor::create("flow", hosts[flows[i].src], meet, i);
    } else {
        std::cerr << "there is no order `" << order << "`\n";
        return 2;
    }
    const double begin_s = cpu_s();
    engine.run();
    const double busy_s = cpu_s() - begin_s;

    for (const Flow& flow : flows)
        printf("%.17g %.17g\n", flow.start_s, flow.finish_s);
    printf("cpu %.6f\n", busy_s);
}
