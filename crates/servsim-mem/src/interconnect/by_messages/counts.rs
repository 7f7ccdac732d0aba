//! What nodes that keep coherent by messages count: packets by network, requests, and what waited for what.

servsim_core::counters! {
    /// What nodes that keep coherent by messages counted.
    pub struct MessageCounters {
        requests: u64 = "nodes.messages.requests" [], "packets", Parts, [summary],
            "Packets of the request network: what nodes ask of homes, and lines that they give back";
        forwards: u64 = "nodes.messages.forwards" [], "packets", Parts, [summary],
            "Packets of the forward network: what homes ask of other nodes, and their receipts";
        responses: u64 = "nodes.messages.responses" [], "packets", Parts, [summary],
            "Packets of the response network: lines, grants and acknowledgements";
        received: u64 = "nodes.messages.received" [], "packets", Parts, [],
            "Packets of all three networks that reached their controller";
        transactions: u64 = "nodes.messages.transactions" [], "requests", Parts, [summary],
            "Requests of processors that needed another node";
        completions: u64 = "nodes.messages.completions" [], "requests", Parts, [],
            "Such requests that are complete";
        waits_at_home: u64 = "nodes.messages.waits_at_home" [], "requests", Parts, [summary],
            "Requests that found their line busy at its home and waited there";
        waits_at_node: u64 = "nodes.messages.waits_at_node" [], "requests", Parts, [summary],
            "Requests of processors that waited because of another for the same line in their node";
        waits_for_room: u64 = "nodes.messages.waits_for_room" [], "packets", Parts, [summary],
            "Packets that waited for room where they go to";
        used_once: u64 = "nodes.messages.used_once" [], "lines", Parts, [summary],
            "Lines that an invalidation overtook: read once and not kept";
    }
}
