package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// testArchive remembers records, and which of them a Sync covered.
type testArchive struct {
	mu      sync.Mutex
	saved   []pages.Exchange
	synced  int
	syncs   int
	saveErr error
	syncErr error
}

func (a *testArchive) Save(x *pages.Exchange) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.saveErr != nil {
		return "", a.saveErr
	}
	kept := *x
	kept.Body = append([]byte(nil), x.Body...)
	if x.RevisitOf != nil {
		of := *x.RevisitOf
		kept.RevisitOf = &of
	}
	kept.Outlinks = slices.Clone(x.Outlinks)
	kept.RequestHead, kept.ResponseHead = append([]byte(nil), x.RequestHead...), append([]byte(nil), x.ResponseHead...)
	a.saved = append(a.saved, kept)
	return fmt.Sprintf("urn:uuid:00000000-0000-0000-0000-%012x", len(a.saved)), nil
}

func (a *testArchive) Sync() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.syncs++
	a.synced = len(a.saved)
	return a.syncErr
}

// testContent is a content owner for all.
type testContent struct {
	mu        sync.Mutex
	claimed   map[[32]byte]string
	confirmed map[[32]byte]reports.Confirmation
	batches   []int
	failing   bool
	deaf      bool // forgets confirmations
}

func newTestContent() *testContent {
	return &testContent{claimed: make(map[[32]byte]string), confirmed: make(map[[32]byte]reports.Confirmation)}
}

func (c *testContent) Claim(_ context.Context, q []pages.Question) ([]pages.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, len(q))
	if c.failing {
		return nil, errors.New("nobody there")
	}
	answers := make([]pages.Answer, len(q))
	for i := range q {
		if k, ok := c.confirmed[q[i].Digest]; ok {
			answers[i] = pages.Answer{Verdict: pages.Known, Original: pages.Original{URL: k.URL, RecordID: k.RecordID, Date: k.Date}}
		} else if by, ok := c.claimed[q[i].Digest]; ok && by != q[i].URL {
			answers[i].Verdict = pages.Wait
		} else {
			c.claimed[q[i].Digest] = q[i].URL
		}
	}
	return answers, nil
}

func (c *testContent) Confirm(_ context.Context, list []reports.Confirmation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range list {
		if !c.deaf {
			c.confirmed[k.Digest] = k
		}
	}
	return nil
}
