// Package dashboard is the web page that a peer serves on loopback for its operator: work of this
// peer, jobs of the ring, a picture of the ring, hosts being crawled, charts, events, rejected
// requests, and controls to pause, to manage jobs and to set limits.
//
// # The page
//
// The page works without a script: it is HTML and SVG from templates that escape untrusted text.
// The script replaces parts of the page as they arrive over a stream of server-sent events, and
// submits forms without a reload. The page loads nothing from other servers. Charts use class names
// for colors, so that the style sheet supports light and dark mode and the content policy forbids
// all other styles and scripts.
//
// A page causes almost no traffic on the ring. Once per second the server samples counters for its
// history (ten minutes in seconds, one day in minutes); everything else is local state, read only
// while a page is open. The exception: while a page is open and the ring is small, the server walks
// the ring every other second, because only a walk shows its state and totals, and requests the
// members' jobs.
//
// # Access
//
// Requests must use an address as host, to prevent DNS rebinding. A browser may view the page. For
// actions it needs a link with a one-time ticket, which sets a cookie; apoidea dashboard prints the
// link for users of the control API. Cross-site forms are rejected. On other addresses than
// loopback, or with --dashboard-login, viewing needs the ticket too: other users of this machine
// can open the page. Cookies are shared by all ports of an address, so other servers on this
// machine that the same browser visits receive the cookie of this page.
//
// Server is safe for concurrent use. Only the secret of the cookies, in the data directory,
// survives a restart.
package dashboard
