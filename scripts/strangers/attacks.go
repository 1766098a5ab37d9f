package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/crawl/webgen/webtruth"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/p2p"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/politeness"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/scripts/harness"
)

// attack is one thing that an untrusted peer does.
type attack struct {
	name, does string
	slow       bool // not among the quick ones
	// member: the attacker takes part in the ring. It is made only when it is named, and may cost
	// some pages.
	member bool
	// asks has a user of the peer that is attacked ask it for the archives of its ring all the
	// while.
	asks bool
	// make does it until ctx ends.
	make func(ctx context.Context, t *target)
	// judge, if not nil, adds a verdict of this attack alone, while it lasts.
	judge func(ctx context.Context, s *scene, r *report)
}

// attacks are those whose cost a process shows from outside. What a single message may not do is
// tested in the packages that handle it.
var attacks = []*attack{
	{name: "json", does: "a worker of the ring lists its files as four megabytes of {}", asks: true, make: listEmptyFiles, judge: judgeEmptyFiles},
	{name: "status", does: "several identities ask for status without a pause", make: askStatus},
	{name: "questions", does: "several identities ask for lists of hosts, URLs and files without a pause", make: askQuestions},
	{name: "announced", does: "frames of four megabytes are announced, and never come", make: announceFrames, judge: judgeLarge},
	{name: "dripped", does: "long requests of which half comes at once, and the rest drips", slow: true, make: dripFrames, judge: judgeLarge},
	{name: "sipped", does: "answers of a megabyte each are asked for, and read by the byte", make: sipAnswers},
	{name: "silent", does: "300 sockets are opened, and send nothing", make: silence(300)},
	{name: "silent2000", does: "2000 sockets are opened, and send nothing", slow: true, make: silence(2000)}, // more than a process usually may have
	{name: "names", does: "ever new identities claim to speak 124 protocols of 250 bytes, and go", slow: true, make: claimNames, judge: judgeNames},
	{name: "pushes", does: "streams to push an identity are opened, and nothing is sent", slow: true, make: holdPushes},
	{name: "abandoned", does: "long lists of hosts as if held, given up at once", make: abandonCalls},
	{name: "outcomes", does: "outcomes of pages that nobody fetched, and requests for hosts that were not offered", make: lieOfPages(false)},
	{name: "attached", does: "the same by workers that are attached to the peer", make: lieOfPages(true)},
	{name: "ring", does: "members that confirm what they are handed, and have nothing", member: true, make: joinEmpty},
}

func askStatus(ctx context.Context, t *target) {
	askAll(ctx, t, map[string][]string{"status": {"report"}})
}

// askQuestions asks all that is answered for people, each of which reads records.
func askQuestions(ctx context.Context, t *target) {
	askAll(ctx, t, map[string][]string{
		"status": {"urls ", "hosts ", "why http://h0.web.localhost/", "host h0.web.localhost"},
		"files":  {"{}"},
	})
}

// askAll has several identities ask services each of the questions over and over again, many at
// once.
func askAll(ctx context.Context, t *target, questions map[string][]string) {
	const atOnce = 16
	t.crowd(ctx, identities, func(s *stranger) {
		var asking sync.WaitGroup
		for service, list := range questions {
			for i := range atOnce {
				asking.Go(func() {
					for n := i; ctx.Err() == nil; n++ {
						_, _ = s.Call(ctx, s.of, service, []byte(list[n%len(list)]))
					}
				})
			}
		}
		asking.Wait()
	})
}

// announceFrames leaves no room for the frames of others, if what is announced is reserved.
func announceFrames(ctx context.Context, t *target) {
	t.crowd(ctx, identities, func(s *stranger) {
		var services sync.WaitGroup
		for _, service := range []string{"owner", "records", "replica", "content", "permit", "jobs"} {
			services.Go(func() { s.streams(ctx, 2, s.Protocol(service), request(1, nil, 4<<20-64), hold) })
		}
		services.Wait()
	})
}

// dripFrames takes all memory for large requests of untrusted peers with what has come.
func dripFrames(ctx context.Context, t *target) {
	half := append(request(1, nil, 4<<20-64), make([]byte, 2<<20+4<<10)...)
	t.crowd(ctx, identities, func(s *stranger) {
		s.streams(ctx, 1, s.Protocol("owner"), half, func(ctx context.Context, st network.Stream) {
			for ctx.Err() == nil {
				if _, err := st.Write(make([]byte, 16<<10)); err != nil {
					return
				}
				_ = harness.Sleep(ctx, 5*time.Second)
			}
		})
	})
}

// judgeLarge expects that a large request of an honest peer is read soon.
func judgeLarge(ctx context.Context, s *scene, r *report) {
	_ = harness.Sleep(ctx, 2*time.Second) // until the attackers are there
	begun := time.Now()
	large := make([]byte, 128<<10) // is refused as what it is not, and only if it is read
	for {
		within, cancel := context.WithTimeout(ctx, callTime)
		_, err := s.honest.net.Call(within, s.honest.of, politeness.ServicePermits, large)
		cancel()
		if calls.CodeOf(err) == calls.CodeRefused {
			r.Say("a large request was read after %.1f s", time.Since(begun).Seconds())
			return
		}
		if time.Since(begun) > joinTime || ctx.Err() != nil {
			harness.Check(fmt.Errorf("no large request of an honest peer is read: %w", errors.Join(err, ctx.Err())))
		}
		_ = harness.Sleep(ctx, 100*time.Millisecond)
	}
}

// sipAnswers asks for a megabyte of the archive many times over, and reads a byte now and then.
func sipAnswers(ctx context.Context, t *target) {
	const atOnce = 64
	t.crowd(ctx, identities, func(s *stranger) {
		var files []control.ArchiveFile
		raw, err := s.Call(ctx, s.of, "files", []byte("{}"))
		if err != nil || json.Unmarshal(raw, &files) != nil || len(files) == 0 {
			return
		}
		question := fmt.Appendf(nil, `{"name": %q}`, files[0].Name)
		s.streams(ctx, 2, s.Protocol("files"), bytes.Repeat(request(1, question, 0), atOnce), func(ctx context.Context, st network.Stream) {
			for ctx.Err() == nil {
				if _, err := st.Read(make([]byte, 1)); err != nil {
					return
				}
				_ = harness.Sleep(ctx, 200*time.Millisecond)
			}
		})
	})
}

// silence opens sockets and sends nothing. One that is closed is opened again.
func silence(sockets int) func(ctx context.Context, t *target) {
	return func(ctx context.Context, t *target) {
		to := t.socket()
		var group sync.WaitGroup
		for range sockets {
			group.Go(func() {
				for ctx.Err() == nil {
					c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
					if err == nil {
						stop := context.AfterFunc(ctx, func() { _ = c.Close() })
						_, _ = c.Read(make([]byte, 1<<10)) // what the peer sends first
						_, _ = c.Read(make([]byte, 1<<10))
						stop()
						_ = c.Close()
					}
					_ = harness.Sleep(ctx, 100*time.Millisecond)
				}
			})
		}
		group.Wait()
	}
}

// holdPushes holds as many streams as may be on which a peer is sent an identity: libp2p answers no
// request for one beside them.
func holdPushes(ctx context.Context, t *target) {
	t.crowd(ctx, identities, func(s *stranger) { s.streams(ctx, 16, "/ipfs/id/push/1.0.0", nil, hold) })
}

// giveUpAfter is how long an attacker waits for an answer that it does not want.
const giveUpAfter = 50 * time.Millisecond

// abandonCalls claims to hold very many hosts, or reports very much of a few, and does not wait for
// the answer. If what nobody waits for is worked through, workers wait behind it, and it fills the
// memory.
func abandonCalls(ctx context.Context, t *target) {
	held := &wire.Session{Incarnation: 1, Seq: 1, Capacity: 1000}
	for i := range wire.MaxHeld {
		held.Held = append(held.GetHeld(), &wire.HostLease{Host: fmt.Sprintf("made-up-%d.example", i)})
	}
	reports := &wire.Session{Incarnation: 1, Seq: 1, Capacity: 1000}
	id := job.NewID()
	for i := range 2000 {
		url := fmt.Sprintf("http://made-up-%d.example/%s", i, strings.Repeat("x", 1000))
		reports.Hosts = append(reports.GetHosts(), &wire.HostWork{Host: fmt.Sprintf("made-up-%d.example", i), Fetched: []*wire.Fetched{{Job: id[:], Url: []byte(url), Size: 1}}})
	}
	var messages [][]byte
	for _, m := range []*wire.Session{held, reports} {
		raw := harness.Must(proto.Marshal(m))
		messages = append(messages, append([]byte("S"), raw...))
	}
	t.crowd(ctx, identities, func(s *stranger) {
		for ctx.Err() == nil {
			for _, raw := range messages {
				within, cancel := context.WithTimeout(ctx, giveUpAfter)
				_, _ = s.Call(within, s.of, rpc.ServiceOwner, raw)
				cancel()
			}
		}
	})
}

// lieOfPages reports again and again that all pages of all hosts are gone, and asks for the hosts.
// If it is believed, pages are missing in the end. Attached identities are workers of the peer, as
// any peer becomes that asks.
func lieOfPages(attached bool) func(ctx context.Context, t *target) {
	return func(ctx context.Context, t *target) {
		id := harness.Must(job.ParseID(t.job))
		lies := t.lies(id)
		t.crowd(ctx, identities, func(s *stranger) {
			ring := p2p.NewRingTransport(s.Net)
			for ctx.Err() == nil {
				if attached {
					s.attach(ctx, ring)
				}
				for _, m := range lies {
					s.within(ctx, func(ctx context.Context) { _, _ = hosts.SessionMethod.Call(ctx, s, s.of, m) })
				}
				_ = harness.Sleep(ctx, 10*time.Millisecond)
			}
		})
	}
}

// attach has a peer accept the identity as one of its workers.
func (s *stranger) attach(ctx context.Context, ring *p2p.RingTransport) {
	worker := dht.NewPeer(s.Self(), nil)
	worker.Role = dht.RoleWorker
	s.within(ctx, func(ctx context.Context) {
		_, _ = ring.Call(ctx, dht.NewPeer(s.of, nil), dhtwire.New(&dhtwire.Message_AttachRequest{AttachRequest: &dhtwire.AttachRequest{Sender: worker.Wire()}}))
	})
}

// lies are reports by host that all its pages are gone.
func (t *target) lies(id job.ID) map[string]*wire.Session {
	lies := make(map[string]*wire.Session)
	for _, url := range webtruth.Of(webgen.New(webConfig(t.port, t.pages)), webtruth.Walk{Port: t.port, MaxDepth: -1}).URLs {
		host := link.Host(url)
		m := lies[host]
		if m == nil {
			m = &wire.Session{Incarnation: 1, Seq: 1, Capacity: 1000, Hosts: []*wire.HostWork{{Host: host, Want: 64, Addrs: [][]byte{{127, 0, 0, 1}}}}}
			lies[host] = m
		}
		work := m.GetHosts()[0]
		work.Fetched = append(work.GetFetched(), &wire.Fetched{
			Job: id[:], Url: []byte(url), Outcome: uint32(link.OutcomeHTTPError), Status: 410, FetchedMs: time.Now().UnixMilli(), Size: 1,
		})
	}
	return lies
}
