// Package fetch implements one HTTP exchange within limits: a request for one URL, and one response
// of any status.
//
// Terms: an *exchange* is one request and its response; a *head* is the start line and the fields
// of either; the *wire* is the data on a connection, before any coding is removed; the *guard*
// rejects addresses that are not on the public internet; a *permit* is the caller's permission to
// send, checked right before the request is written, so that no request is sent under an expired
// lease.
//
// Redirects are returned, not followed; cookies are not stored, and sent only as part of the
// Request or HostFields; proxies of the environment are not used. Addresses of a host are dialed as
// in RFC 8305, alternating between IPv4 and IPv6. Every step has a timeout and every part of a
// response a size limit: see Config. A failure is an *Error with its outcome; an exchange that ends
// because the caller's context ended returns that context's error.
//
// # Why not net/http
//
// HTTP/1.1 is implemented here, over a connection pool of this package. HTTP/2 is for servers that
// reject HTTP/1.1, or negotiate no protocol and do not answer it: net/http implements it, on a
// connection of the same pool. A host is sent one request at a time, so that its streams gain
// nothing, and each of its connections costs 60 KB.
//
// Four requirements of a crawler need a separate client: the heads of request and response byte for
// byte, in the order sent, for the archive; a permit check between having a connection and writing
// to it; an idle connection that costs a socket and no goroutine or buffer, since thousands of
// hosts wait between two pages; and half the CPU time of a page.
//
// # What is archived
//
// Body is decoded: without transfer and content codings. To keep the archived response valid,
// ResponseHead renames the original Content-Encoding, Transfer-Encoding and Content-Length with the
// prefix X-Crawler- and has the Content-Length of the decoded body, as Common Crawl's archives do.
// A body that cannot be decoded is stored as sent, with its Content-Encoding. A body that is cut
// off or stalls is stored as far as it was received: Response.Truncated. Its start line is that of
// HTTP/1.1, also for HTTP/2. Invalid field lines are omitted, invalid bytes of values replaced by
// spaces.
//
// # Memory
//
// The first FreeBody bytes of a body are in memory. A larger body requests memory (Request.Room),
// for its Content-Length at once, and is read on only when it is granted. Bodies in a coding whose
// window the sender chooses, br and zstd, are decoded when they are complete. A TLS handshake is
// limited in bytes, and few large ones are under way at once; the memory of their certificates
// counts with the body, and neither their connections nor their sessions are cached.
//
// A Fetcher is safe for concurrent use. It has no goroutine of its own, except that an idle HTTP/2
// connection has its reader.
package fetch
