package politeness

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
	"github.com/apoidea/apoidea/node/services/rpc"
)

const (
	// proofTime bounds a check for a proof, proofAge is the validity of one that was found, and
	// proofRest the backoff for a site without one.
	proofTime = 15 * time.Second
	proofAge  = 10 * time.Minute
	proofRest = 10 * time.Second
	// proofsKept bounds the remembered checks, proofsPerMinute the checks for all callers, and
	// proofsOfStrangers the part of those for untrusted peers: opt-outs arrive by a member's form, or
	// its list.
	proofsKept        = 1024
	proofsPerMinute   = 60
	proofsOfStrangers = 6
)

// errTooManyProofs is independent of the site: the caller keeps the opt-out and retries.
var errTooManyProofs = rpc.Busy("too many proof checks in this minute, retry later")

// errSilent is returned for a site, or its name server, that did not answer.
var errSilent = errors.New("no answer, it may show the proof later")

// final reports whether a check has a result: the site shows the proof, or answers without it.
func final(err error) bool {
	return err == nil || rpc.Refused(unproved(err)) && !errors.Is(err, errSilent)
}

// unproved returns the reply to an opt-out without a proof: rejected if the site was checked and
// shows none, busy if it could not be checked.
func unproved(err error) error {
	if calls.CodeOf(err) != 0 || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return rpc.Refuse("%v", err)
}

// Prover checks sites for proofs.
type Prover struct {
	get Get
	// TXT looks up TXT records; nil: the system's resolver.
	TXT    func(ctx context.Context, name string) ([]string, error)
	flight singleflight.Group

	mu     sync.Mutex // guards what follows; never held during network calls
	known  map[string]found
	minute time.Time
	spent  int
	lent   int // of spent, for untrusted peers
}

// found is the result of a check.
type found struct {
	at  time.Time
	err error
}

// NewProver returns a Prover that uses a DNS server, given with its port, or if empty the system's.
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

// Check checks a site for the proof of an action. The error describes what is missing.
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
		p.store(key, found{time.Now(), err})
		return nil, err
	})
	select {
	case r := <-ch:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Forget drops all remembered checks.
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

// begin counts a check; false if there were too many in this minute.
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

func (p *Prover) store(key string, f found) {
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
	silent := true
	for _, scheme := range []string{"https", "http"} {
		url := scheme + "://" + s.Name + optout.WellKnown
		text, answered, err := p.read(ctx, url)
		silent = silent && !answered
		if err == nil && optout.Shows(text, s, a) {
			return nil
		}
		if err == nil {
			err = errors.New("token not found")
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
	}
	records, err := p.TXT(ctx, optout.TXTName(s))
	if err == nil && optout.Shows(strings.Join(records[:min(len(records), optout.MaxTXT)], "\n"), s, a) {
		return nil
	}
	if e, ok := errors.AsType[*net.DNSError](err); silent || ok && !e.IsNotFound {
		errs = append(errs, errSilent)
	}
	if err == nil {
		err = errors.New("no matching record")
	}
	errs = append(errs, fmt.Errorf("TXT %s: %w", optout.TXTName(s), err))
	return fmt.Errorf("%s does not show %q: %w", s, optout.Token(s, a), errors.Join(errs...))
}

func (p *Prover) read(ctx context.Context, url string) (text string, answered bool, err error) {
	resp, err := p.get(ctx, &fetch.Request{URL: url, Accept: "text/plain,*/*;q=0.1", MaxBytes: optout.MaxProof, Cut: true})
	if err != nil {
		return "", false, err
	}
	defer resp.Release()
	if resp.Status != http.StatusOK {
		return "", resp.Status < http.StatusInternalServerError, fmt.Errorf("status %d", resp.Status)
	}
	return string(resp.Body), true, nil
}
