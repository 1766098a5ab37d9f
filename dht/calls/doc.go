// Package calls lets peers ask each other: requests and their answers, as frames over long-lived
// streams. Of the network beneath it needs no more than streams, see [Network], so that two
// endpoints talk over net.Pipe as well.
//
// Its words:
//
//   - service: a name under which a peer answers requests, such as "ring".
//   - call: one request and its answer. Many calls share one long-lived stream
//     a (peer, service, direction); each is a varint-delimited frame with an ID.
//     The frames are our own because frames of many calls go out in one write: of
//     32 calls of 64 bytes at a time each costs 5.5 us of CPU over TCP, both sides
//     together, where go-msgio on one stream takes 22 and a stream a call 80; one
//     call of 16 KiB alone 111 us, 123 and 176 (BenchmarkCall in dht/p2p).
//
// What it promises:
//
//   - A call ends: with an answer, with the handler's [*Error], with the
//     caller's context, or with an error that is [ErrUnreachable] as soon as the
//     stream breaks. A call is sent at most once: only one that was never
//     written is tried again on a fresh stream.
//   - Back-pressure instead of loss: outstanding calls, running handlers, queued
//     requests and unsent bytes are bounded, and who exceeds a bound waits.
//     The exceptions are the memory for large requests of all peers together and
//     that for unread answers of long services ([Endpoint.Long]), beyond which the answer is
//     [CodeBusy]. Of both a part is for peers that the [Network] knows; of others all requests and
//     answers count that are not tiny, and fewer run and wait.
//   - Who is slow loses a stream and nothing else: its first byte, each frame that has begun and
//     each write have their time, which grows with what comes or is written and not with what was
//     announced. A stream may be quiet between whole frames for a minute.
//   - Nothing that a stranger sends is allocated before its size was checked.
//   - When [Endpoint.Wait] has returned after [Endpoint.Close], no goroutine of this package is
//     left and no handler runs.
package calls
