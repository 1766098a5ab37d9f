// Package bandwidth keeps a peer under its cap: bytes a second, shared fairly.
//
// Its words:
//
//   - cap (L): the most bytes a second in one direction, as programs read and write them: TLS counts, the headers of TCP and IP do not.
//   - limiter: what holds the cap over everything, whatever the cost. Who wants to read or write asks it first, a piece at a time.
//   - class: who wants to, sites or peers. Classes that want more than there is get equal parts.
//   - debt: bytes that nobody could ask for before. They are paid back before anybody else is served.
package bandwidth
