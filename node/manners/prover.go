package manners

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/rpc"
)

const (
	// proofTime bounds looking for a proof, proofAge is how long one that was found counts,
	// proofRest how long a site is not looked at again after it showed none.
	proofTime = 15 * time.Second
	proofAge  = 10 * time.Minute
	proofRest = 10 * time.Second
	// proofsKept bounds those remembered, proofsPerMinute how often sites are looked at for whoever
	// asks, proofsOfStrangers how often of that for who is no member: wishes come by a member's form,
	// or its list.
	proofsKept        = 1024
	proofsPerMinute   = 60
	proofsOfStrangers = 6
)

// errTooManyProofs is no word on the site: who asked keeps the wish, and comes back.
var errTooManyProofs = rpc.Busy("too many sites were looked at this minute, ask again later")

// unproved answers a wish that Prove has no proof for: refused where a site was looked at and shows
// none, and busy where nobody could look.
func unproved(err error) error {
	if calls.CodeOf(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return rpc.Refuse("%v", err)
}

// Prover looks at sites for proofs that they ask for something themselves.
type Prover struct {
	get Get
	// TXT looks up TXT records; the system's resolver does where nothing else is set.
	TXT    func(ctx context.Context, name string) ([]string, error)
	flight singleflight.Group

	mu     sync.Mutex // guards what follows; never held over the network
	known  map[string]found
	minute time.Time
	spent  int
	lent   int // of spent, for strangers
}

// found is what a look at a site came to.
type found struct {
	at  time.Time
	err error
}

// NewProver returns one that asks a DNS server, given with its port, or if that is empty the
// system's.
func NewProver(get Get, dnsServer string) *Prover {
	r := &net.Resolver{}
	if dnsServer != "" {
		r.PreferGo = true
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, dnsServer)
		}
	}
	return &Prover{get: get, TXT: r.LookupTXT, known: make(map[string]found)}
}

// Check looks whether a site asks for an action. The error says for people what it does not show.
func (p *Prover) Check(ctx context.Context, s optout.Subject, a optout.Action) error {
	key := string(a) + " " + s.String()
	if f, ok := p.recall(key, time.Now()); ok {
		return f.err
	}
	stranger := !rpc.OfMember(ctx)
	ch := p.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofTime)
		defer cancel()
		if !p.begin(time.Now(), stranger) {
			return nil, errTooManyProofs
		}
		err := p.look(ctx, s, a)
		p.note(key, found{time.Now(), err})
		return nil, err
	})
	select {
	case r := <-ch:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Forget has every site looked at anew.
func (p *Prover) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.known)
}

func (p *Prover) recall(key string, now time.Time) (found, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.known[key]
	age := now.Sub(f.at)
	return f, ok && (f.err == nil && age < proofAge || f.err != nil && age < proofRest)
}

// begin counts a look at a site; false if there were too many in this minute.
func (p *Prover) begin(now time.Time, stranger bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.minute) >= time.Minute {
		p.minute, p.spent, p.lent = now, 0, 0
	}
	if p.spent >= proofsPerMinute || stranger && p.lent >= proofsOfStrangers {
		return false
	}
	if p.spent++; stranger {
		p.lent++
	}
	return true
}

func (p *Prover) note(key string, f found) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= proofsKept {
		clear(p.known)
	}
	p.known[key] = f
}

// look reads the site's file, and then its TXT records.
func (p *Prover) look(ctx context.Context, s optout.Subject, a optout.Action) error {
	var errs []error
	for _, scheme := range []string{"https", "http"} {
		url := scheme + "://" + s.Name + optout.WellKnown
		text, err := p.read(ctx, url)
		if err == nil && optout.Shows(text, s, a) {
			return nil
		}
		if err == nil {
			err = errors.New("the line is not in it")
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
	}
	records, err := p.TXT(ctx, optout.TXTName(s))
	if err == nil && optout.Shows(strings.Join(records[:min(len(records), optout.MaxTXT)], "\n"), s, a) {
		return nil
	}
	if err == nil {
		err = errors.New("no record is the line")
	}
	errs = append(errs, fmt.Errorf("TXT %s: %w", optout.TXTName(s), err))
	return fmt.Errorf("%s does not show %q: %w", s, optout.Token(s, a), errors.Join(errs...))
}

func (p *Prover) read(ctx context.Context, url string) (string, error) {
	resp, err := p.get(ctx, &fetch.Request{URL: url, Accept: "text/plain,*/*;q=0.1", MaxBytes: optout.MaxProof, Cut: true})
	if err != nil {
		return "", err
	}
	defer resp.Release()
	if resp.Status != http.StatusOK {
		return "", fmt.Errorf("status %d", resp.Status)
	}
	return string(resp.Body), nil
}
