// Package bandwidth enforces a peer's bandwidth limit in bytes a second, shared fairly.
//
// Terms:
//
//   - cap (L): the bandwidth limit in one direction, of bytes as programs read and write them: TLS
//     counts, the headers of TCP and IP do not.
//   - limiter: enforces the limit. Reads and writes request bytes from it first, a piece at a time.
//   - class: sites or peers. Classes that request more than the limit get equal parts.
//   - debt: bytes transferred without a request. It is paid off before any other request is
//     granted.
//   - governor: decides which fetch starts, and when.
//
// # The governor
//
// The governor is active only while there is a limit. The worker then ranks the hosts that may be
// visited by the score of their next URL: smaller depth first, then age
// (crawl/worker/visits/chooser.go). There are three governors: paper is Diligenti et al. (papers
// 4), start-stop is the one they compare it with, and ours differs from the paper in these points:
//
//   - The paper books a fixed rate for each fetch, learned over whole downloads. Ours estimates the
//     bytes of the next two seconds: from the running fetches, the remaining bytes of each, and the
//     response times of servers.
//   - Ours takes only the head of the queue, so it never skips a higher score. A deeper search was
//     tried without gain.
//   - Ours admits a twentieth more than fits, as the limiter enforces the limit.
//   - A download delayed by the limiter does not change the paper's estimates. Ours lets it raise
//     an estimate, never lower it.
//
// The estimates are in memory, for 4,096 servers at most, and start empty.
//
// # The limiter
//
// The limiter is a token bucket (golang.org/x/time/rate) of 0.95 of the limit that holds 30 ms, so
// no second has more than 0.98 of the limit. Two classes that wait get pieces in turn. A read first
// waits until data is available, then for the limiter, then reads; so an idle connection reserves
// no bandwidth.
//
// A kernel receives part of an answer before a program reads it, and these bytes cross the link
// without a request. So the receive buffer of a connection is kept small. A connection that was
// made under a higher limit is replaced when it is idle, as its kernel has already offered the
// sender a larger window.
package bandwidth
