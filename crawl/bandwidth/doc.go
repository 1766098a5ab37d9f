// Package bandwidth keeps a peer under its cap: bytes a second, shared fairly.
//
// Its words:
//
//   - cap (L): the most bytes a second in one direction, as programs read and write them: TLS counts, the headers of TCP and IP do not.
//   - limiter: what holds the cap over everything, whatever the cost. Who wants to read or write asks it first, a piece at a time.
//   - class: who wants to, sites or peers. Classes that want more than there is get equal parts.
//   - debt: bytes that nobody could ask for before. They are paid back before anybody else is served.
//
// # The governor and the limiter
//
// Above the line a governor says which fetch starts, and when (crawl/bandwidth, driven by
// crawl/worker/governed.go). While there is a cap the worker ranks the hosts that may be visited
// by the score of their next URL, smaller depth first, then age; without one nothing of this runs.
// paper is Diligenti et al. as papers.md 4 has it, start-stop their rival. ours departs from them.
// The paper books a fixed rate for each fetch, learnt over whole downloads; ours asks what the
// next two seconds will bring, from what runs now, how many bytes each has to come, and how long
// servers think. It takes only the head of the queue, so scores are never passed over: a deeper
// search was tried and gained nothing. Over the limiter it admits a twentieth more than fits. What
// the limiter held back teaches the paper's estimates nothing; ours lets it raise them only. The
// estimates are in the store, 4,096 servers at most.
//
// The limiter gives out 0.97 of the cap and never more than 0.98 of it in any second, by counting
// the last one, in rounds of 18 ms. A read waits until something is there, then for its turn, then
// takes it; so an idle connection holds nothing. What a kernel takes in of an answer before it is
// read comes over the wire unasked: its buffer is kept small, of a connection to a site it is paid
// for before the question goes out, a read pays for what comes in its place, and each look settles
// the difference. A connection made under a wider cap is replaced, as its kernel has offered more
// already. Of peers' connections the kernel's part is not counted.
package bandwidth
