// Package fetch makes one exchange over HTTP and keeps its limits: a request for one URL, one
// response, whatever it is.
//
// Words: an *exchange* is one request and its response; a *head* is the start line and the fields
// of either; the *wire* is what a connection carries, before any coding is removed; the *guard* is
// what refuses to dial an address that is not on the public internet; a *permit* is the caller's
// leave to send, asked for at the last moment before the request is written, so that a lapsed lease
// writes nothing.
//
// A redirect is a response like any other, never followed; cookies are not kept here, and sent as
// the Request or HostFields have them; proxies of the environment are not used. Addresses of a host
// are dialled as RFC 8305 says, IPv4 and IPv6 in turn. Every step has a bound on time
// and every part of a response one on size: see Config. What goes wrong is an *Error with its
// outcome; an exchange that ends because the caller's context ended returns that context's error.
//
// # Why not net/http
//
// HTTP/1.1 is spoken here directly, over connections of a pool of ours. HTTP/2 is for servers that
// refuse HTTP/1.1, or agree on no protocol and do not answer it: net/http speaks it, on a
// connection of the same pool. A host is asked for one page at a time, so that its streams gain
// nothing, and each of its connections costs 60 KB.
//
// Four things that a crawler needs ask for a client of our own: the heads of request and response
// byte for byte, in the order sent, for the archive; a permit between having a connection and
// writing to it; an idle connection that costs a socket and no goroutine or buffer, since thousands
// of hosts are kept waiting between two pages; and half the CPU of a page.
//
// # What is archived
//
// Body is decoded: without transfer and content codings. So that the archived response stays a
// response, ResponseHead names the original Content-Encoding, Transfer-Encoding and Content-Length
// with the prefix X-Crawler- and has the Content-Length of the decoded body, as Common Crawl's
// archives do. A body that cannot be decoded is stored as sent, with its Content-Encoding. A body
// that breaks off or stalls is kept as far as it came: Response.Truncated. Its start line is
// HTTP/1.1's, also for HTTP/2. Fields that are no fields are left out, bytes that no value may hold
// are replaced by spaces.
//
// # Memory
//
// The first FreeBody bytes of a body are in memory. What grows beyond asks for it (Request.Room),
// and is on disk if there is none: Response.Spilled. Bodies in a coding whose window the sender
// chooses, br and zstd, are unpacked when all of them is here. A TLS handshake is bounded in bytes,
// and few large ones are under way at once; what their certificates take counts with the body, and
// neither their connections nor their sessions are kept.
//
// A Fetcher is safe for concurrent use. It has no goroutine of its own, except that an idle HTTP/2
// connection has its reader.
package fetch
