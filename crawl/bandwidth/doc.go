// Package bandwidth keeps a peer under its cap: bytes a second, shared fairly.
//
// Its words:
//
//   - cap (L): the most bytes a second in one direction, as programs read and write them: TLS
//     counts, the headers of TCP and IP do not.
//   - limiter: what holds the cap, whatever is sent. Whoever wants to read or write asks it first,
//     a piece at a time.
//   - class: sites or peers. Classes that want more than there is get equal parts.
//   - debt: bytes that passed without asking. They are paid back before anybody else is served.
//   - governor: what decides which fetch starts, and when.
//
// # The governor
//
// The governor works only while there is a cap. The worker then ranks the hosts that may be visited
// by the score of their next URL: smaller depth first, then age (crawl/worker/visits/chooser.go).
// There are three governors: paper is Diligenti et al. (papers 4), start-stop is what they compare
// it with, and ours departs from the paper in these points:
//
//   - The paper books a fixed rate for each fetch, learnt over whole downloads. Ours estimates what
//     the next two seconds will bring: from what runs now, how many bytes each fetch has to come,
//     and how long servers think.
//   - Ours takes only the head of the queue, so it never passes a higher score over. A deeper
//     search was tried and gained nothing.
//   - Ours admits a twentieth more than fits, as the limiter below it holds the cap.
//   - A download that the limiter held back teaches the paper's estimates nothing. Ours lets it
//     raise an estimate, never lower it.
//
// The estimates are in the store, for 4,096 servers at most.
//
// # The limiter
//
// The limiter gives out 0.97 of the cap in rounds of 18 ms. It counts the last second, and never
// gives more than 0.98 of the cap in any second. A read first waits until something is there, then
// for its turn, then reads; so an idle connection holds nothing.
//
// A kernel takes in a part of an answer before anybody reads it, and these bytes cross the link
// unasked. So the receive buffer of a connection is kept small, and a connection to a site pays for
// its buffer before the request is written. Each read then pays for the bytes that come in its
// place, and each look at the connection settles the difference. A connection that was made under a
// wider cap is replaced, as its kernel has already offered the other side more. The kernel's part
// is not counted for connections to peers.
package bandwidth
