// Package dashboard is the page that a peer serves on loopback for its operator: the work of this
// peer, the jobs of the ring, the ring as a picture, hosts being crawled, charts, events, refused
// requests, and buttons to pause, to steer jobs and to set limits.
//
// # The page
//
// The page is whole without a script: everything on it is HTML and SVG made here, from templates
// that escape what strangers named. The script only puts newer pieces of the same HTML in place, as
// they come over one stream of server-sent events, and sends the forms without a reload. Nothing is
// fetched from elsewhere. Charts name classes for colours: so the style sheet decides on light and
// dark, and the policy of the page can forbid every style and script but its own.
//
// A page costs the ring nothing. Once a second the server takes a few sums for its history (ten
// minutes by the second, a day by the minute); all else is read from what this peer knows already,
// and only while a page is open. There is one exception: while a page is open and the ring is small
// it is walked every other second, since only a walk tells whether it is closed and what all have
// done, and its members are asked for their jobs.
//
// # Who may do what
//
// Only requests by address are answered, since a name could be somebody else's that points here. A
// browser may look. To act it needs a link with a ticket, which works once and leaves a cookie;
// only whoever may use the control API gets one (apoidea dashboard). Forms of other sites are
// refused. On an address that is not loopback, or with --dashboard-login, the ticket is needed to
// look as well: other users of this machine can open the page too. Cookies are the
// same for all ports of an address, so other servers on this machine that the same browser visits
// see the cookie of this page.
//
// Server is safe for concurrent use. Nothing of it survives a restart but the secret behind the
// cookie, which lies in the data directory.
package dashboard
