// Package dashboard is the page that a peer serves on loopback for the person at home: the ring as a picture, the hosts being crawled, charts of
// the last ten minutes or the last day, what happened to the neighbours, and the buttons to pause and to set limits.
//
// The page is whole without a script: everything on it is HTML and SVG made here, from templates that escape what strangers named. The script
// only puts newer pieces of the same HTML in place, as they come over one stream of server-sent events, and sends the forms without a reload.
// Nothing is fetched from elsewhere.
//
// What a browser may do is bounded: only requests by address are answered (a name could be somebody else's that points here), whoever acts must
// have come by a link with a ticket, which works once and leaves a cookie, and forms of other sites are refused. On an address that is not
// loopback the ticket is needed to look as well. Cookies are the same for all ports of an address, so other servers that the same browser visits
// on this machine get to see the one of this page.
//
// Server is safe for concurrent use. Nothing of it survives a restart but the secret behind the cookie, which lies in the data directory.
//
// # The page
//
// node/dashboard serves a page on loopback: HTML and SVG made by the peer, whole without a script.
// Once a second it takes a few sums for its history (ten minutes by the second, a day by the
// minute); all else is asked only while a page is open, from what this peer knows already, so a
// page costs the ring nothing; but while it shows the ring open after a death, the leaf set is
// asked who answers for what. Charts are laid out by gonum/plot on a canvas of our own that writes
// classes for colours, so that light and dark are the style sheet's and the policy of the page can
// forbid every style and script but its own. A browser may look; to act it needs a link with a
// ticket that works once, which only whoever may use the control API gets (apoidea dashboard).
package dashboard
