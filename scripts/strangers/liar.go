package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	libpeer "github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/record"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	nodehosts "github.com/apoidea/apoidea/node/services/hosts"
	"github.com/apoidea/apoidea/node/services/rpc"
	nodewire "github.com/apoidea/apoidea/node/services/wire"
	"github.com/apoidea/apoidea/scripts/harness"
	"github.com/apoidea/apoidea/storage"
)

// What a liar sends, beside the reports of workers.
var (
	linksMethod  = rpc.Method[*wire.Links, *wire.LinksReply]{Service: rpc.ServiceOwner, Tag: 'L'}
	jobMethod    = rpc.Method[*wire.JobRequest, *wire.JobReply]{Service: "job"}
	recordMethod = rpc.Method[*nodewire.Records, *emptypb.Empty]{Service: "records"}
)

const (
	// joinWithin is how long the liars of an open ring may take to become members, claimFor how long
	// outsiders try.
	joinWithin, claimFor = 20 * time.Second, 2 * time.Second
	// drawn are the identities of which those at the best positions are used.
	drawn = 4000
	// postedJobs are the jobs of the attack jobs, each with jobSeeds seeds of jobURL bytes.
	postedJobs, jobSeeds, jobURL = 463, 30, 4000
)

// tally is what came of the requests of the liars.
type tally struct {
	Members  int   `json:"members"` // liars that serve an arc, by their own view
	Accepted int64 `json:"accepted"`
	Refused  int64 `json:"refused"`
	Seconds  float64
}

func (t *tally) count(ok bool, n int) {
	if ok {
		atomic.AddInt64(&t.Accepted, int64(n))
	} else {
		atomic.AddInt64(&t.Refused, int64(n))
	}
}

// liar is a member of the ring; in a ring by invitation it only claims to be one.
type liar struct {
	*stranger
	*target
	*tally
	id   job.ID
	key  crypto.PrivKey
	dht  *dht.DHT // nil of an outsider
	anew bool     // see pushOptOuts
}

// lieAs makes an attack until ctx ends. Once the liars are in the ring it prints their IDs and
// reads the ID of the job from its input; at the end it prints its tally.
func lieAs(ctx context.Context, o *options, t *target) error {
	rows, err := chooseLies([]string{o.as}, false)
	if err != nil {
		return err
	}
	a, sum := rows[0], &tally{}
	var all []*liar
	var leaving []func()
	defer func() {
		var group sync.WaitGroup
		for _, leave := range leaving {
			group.Go(leave)
		}
		group.Wait()
	}()
	joining, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	for _, key := range positions(o.near, max(a.liars, 1)) {
		net := harness.Must(newNet(p2p.Config{Identity: key}))
		l := &liar{stranger: &stranger{net, t.info.ID}, target: t, tally: sum, key: key, anew: a.name == "optouts"}
		leaving = append(leaving, l.take(joining, a.swallows, o.ring == invite))
		all = append(all, l)
	}
	for o.ring != invite && slices.ContainsFunc(all, func(l *liar) bool { return l.dht.State() != dht.Serving }) && harness.Sleep(joining, 50*time.Millisecond) == nil {
	}
	if o.ring == invite {
		_ = harness.Sleep(ctx, claimFor)
	}
	for _, l := range all {
		fmt.Print(l.Self(), " ")
	}
	fmt.Println()
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return errors.New("no job to attack")
	}
	id := harness.Must(job.ParseID(in.Text()))
	begun := time.Now()
	var lying sync.WaitGroup
	for _, l := range all {
		if l.id = id; a.lie != nil {
			lying.Go(func() { a.lie(ctx, l) })
		}
	}
	<-ctx.Done()
	lying.Wait()
	sum.Seconds = time.Since(begun).Seconds()
	for _, l := range all {
		if l.dht != nil && l.dht.State() == dht.Serving {
			sum.Members++
		}
	}
	return json.NewEncoder(os.Stdout).Encode(sum)
}

// positions draws identities and returns the n whose positions are nearest to a key, half of them
// before it. A single one owns the key.
func positions(near string, n int) (keys []crypto.PrivKey) {
	type drawnKey struct {
		crypto.PrivKey
		after ring.Key // clockwise distance from near
	}
	at := ring.HostKey(near)
	if id, err := libpeer.Decode(near); err == nil {
		at = ring.PeerKey([]byte(id))
	}
	var all []drawnKey
	for range drawn {
		key := harness.Must(member.GenerateIdentity(1, nil))
		all = append(all, drawnKey{key, ring.PeerKey([]byte(harness.Must(libpeer.IDFromPrivateKey(key)))).Sub(at)})
	}
	slices.SortFunc(all, func(a, b drawnKey) int { return a.after.Compare(b.after) })
	for i := range n {
		if i%2 == 0 {
			keys = append(keys, all[i/2].PrivKey)
		} else {
			keys = append(keys, all[len(all)-1-i/2].PrivKey)
		}
	}
	return keys
}

// take takes part in the ring. A liar that swallows confirms all that it is handed as an owner, and
// stores nothing; others are busy, so that nothing is lost but by their lies. An outsider attaches
// to all peers as a worker, and claims to be a member.
func (l *liar) take(ctx context.Context, swallows, outsider bool) (leave func()) {
	handlers := make(map[string]calls.Handler)
	for _, service := range services {
		handlers[service] = func(context.Context, libpeer.ID, []byte) ([]byte, error) {
			if swallows {
				return nil, nil
			}
			return nil, rpc.Busy("not now")
		}
	}
	if !outsider {
		l.dht, leave = attend(ctx, l.Net, dht.RoleMember, l.addr, handlers)
		return leave
	}
	for service, handler := range handlers {
		l.Handle(service, handler)
	}
	claims := l.claim()
	harness.Check(l.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var claiming sync.WaitGroup
	claiming.Go(func() {
		for ctx.Err() == nil {
			for _, s := range l.each() {
				s.claimTo(ctx, claims)
				s.attach(ctx, claims)
			}
			_ = harness.Sleep(ctx, 500*time.Millisecond)
		}
	})
	return func() {
		stop()
		claiming.Wait()
		_ = l.Close()
	}
}

// each returns the liar once for each honest peer, as the one that it calls.
func (l *liar) each() (all []*stranger) {
	for _, info := range l.all {
		within, cancel := context.WithTimeout(context.Background(), callTime)
		if l.Meet(within, info) == nil {
			all = append(all, &stranger{l.Net, info.ID})
		}
		cancel()
	}
	return all
}

// repeat calls all honest peers over and over again, at once, and pauses in between.
func (l *liar) repeat(ctx context.Context, pause time.Duration, call func(ctx context.Context, s *stranger, turn int)) {
	var group sync.WaitGroup
	for _, s := range l.each() {
		group.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				s.within(ctx, func(ctx context.Context) { call(ctx, s, turn) })
				_ = harness.Sleep(ctx, pause)
			}
		})
	}
	group.Wait()
}

// hosts are those of the web.
func (t *target) hosts() (names []string) {
	for _, url := range t.seeds() {
		names = append(names, link.Host(url))
	}
	return names
}

// forge reports all pages of all hosts as gone: first without a certificate, then with one that the
// liar signed itself.
func forge(ctx context.Context, l *liar) {
	lies := l.target.lies(l.id)
	l.repeat(ctx, 10*time.Millisecond, func(ctx context.Context, s *stranger, turn int) {
		for host, m := range lies {
			m := proto.CloneOf(m)
			work := m.GetHosts()[0]
			if turn%2 == 1 {
				epoch := ondisk.Epoch{Counter: uint64(time.Now().UnixMilli()), Peer: string(l.Self())}
				signature := harness.Must(l.key.Sign(hosts.SignedLease(host, string(l.Self()), epoch)))
				work.Epoch, work.Certificate = epoch.Wire(), &wire.Certificate{Epoch: epoch.Wire(), Signature: signature}
			}
			m.Seq = uint64(turn) + 1
			_, err := nodehosts.SessionMethod.Call(ctx, s, s.of, m)
			if ctx.Err() == nil {
				l.count(err == nil, len(work.GetFetched()))
			}
		}
	})
}

// draw asks the owner of the job for its budget without a pause, for a host that the liar owns.
func draw(ctx context.Context, l *liar) {
	own := l.hosts()[:1]
	var mu sync.Mutex
	var held uint64
	l.repeat(ctx, 20*time.Millisecond, func(ctx context.Context, s *stranger, _ int) {
		mu.Lock()
		defer mu.Unlock()
		reply, err := jobMethod.Call(ctx, s, s.of, &wire.JobRequest{Id: l.id[:], Draw: &wire.Draw{Pages: 256, DrawnPages: held, Host: own}})
		if err == nil && reply.GetPages() > held {
			l.count(true, int(reply.GetPages()-held)) //nolint:gosec // of a budget of 300
			held = reply.GetPages()
		} else if ctx.Err() == nil {
			l.count(false, 1)
		}
	})
}

// inventLinks hands in links to pages that do not exist, of all hosts.
func inventLinks(ctx context.Context, l *liar) {
	names := l.hosts()
	l.repeat(ctx, 0, func(ctx context.Context, s *stranger, turn int) {
		m := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{l.id[:]}}
		for i := range wire.MaxLinks {
			m.Url = append(m.GetUrl(), fmt.Appendf(nil, "http://%s/invented/%d/%d", names[i%len(names)], turn, i))
		}
		reply, err := linksMethod.Call(ctx, s, s.of, m)
		switch {
		case err == nil:
			over := len(reply.GetBusy())
			l.count(true, len(m.GetUrl())-over-len(reply.GetMoved()))
			l.count(false, over)
		case ctx.Err() == nil:
			l.count(false, len(m.GetUrl()))
		}
	})
}

// pushOptOuts pushes host records with an opt-out that no site has shown.
// Attack optouts pushes ever newer ones, of which a host is checked once in ten minutes.
func pushOptOuts(ctx context.Context, l *liar) {
	l.repeat(ctx, time.Second, func(ctx context.Context, s *stranger, turn int) {
		version := uint64(1)
		if l.anew {
			version += uint64(turn)
		}
		for _, host := range l.hosts() {
			raw := harness.Must(proto.Marshal(&record.Host{
				Name: []byte(host), OptOut: true, OptOutVersion: version, OptOutAtMs: time.Now().UnixMilli(), OptOutWhy: []byte("host " + host),
			}))
			key := ondisk.HostKey(ring.PosOf(ring.HostKey(host)))
			_, err := recordMethod.Call(ctx, s, s.of, &nodewire.Records{Space: uint32(storage.KeyspaceHosts), Key: [][]byte{key}, Value: [][]byte{append([]byte{ondisk.Format}, raw...)}})
			if ctx.Err() == nil && calls.CodeOf(err) != calls.CodeMoved {
				l.count(err == nil, 1)
			}
		}
	})
}

// postJobs posts signed jobs with long lists of seeds, and cancels them in the end.
func postJobs(ctx context.Context, l *liar) {
	_, private, err := ed25519.GenerateKey(nil)
	harness.Check(err)
	key := job.NewKey(private)
	names := l.hosts()
	var group sync.WaitGroup
	next, peers := make(chan int), l.each()
	for range 4 {
		group.Go(func() {
			for n := range next {
				spec := &job.Spec{ID: job.NewID(), Created: time.Now().Truncate(time.Millisecond), NoSitemaps: true}
				for i := range jobSeeds {
					spec.Seeds = append(spec.Seeds, fmt.Sprintf("http://%s/%d/%d/%s", names[i%len(names)], n, i, strings.Repeat("x", jobURL)))
				}
				harness.Check(key.Sign(spec))
				l.count(l.post(ctx, peers, &wire.JobRequest{Id: spec.ID[:], Post: spec.Wire()}) == nil, 1)
				stop := key.SignState(spec.ID, job.Standing{State: job.StateCanceled, Version: 2})
				_ = l.post(context.WithoutCancel(ctx), peers, &wire.JobRequest{Id: spec.ID[:], SetState: uint32(stop.State), Version: stop.Version, StateSignature: []byte(stop.Signature)})
			}
		})
	}
	for n := range postedJobs {
		select {
		case next <- n:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
}

// post sends a request for a job to its owner.
func (l *liar) post(ctx context.Context, peers []*stranger, m *wire.JobRequest) (err error) {
	for _, s := range peers {
		s.within(ctx, func(ctx context.Context) { _, err = jobMethod.Call(ctx, s, s.of, m) })
		if calls.CodeOf(err) != calls.CodeMoved {
			return err
		}
	}
	return err
}
