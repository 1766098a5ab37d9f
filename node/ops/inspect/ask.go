package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// answerJSON encodes a response of the status service.
func answerJSON[T any](v T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// askOwner sends a request to the owner of a key, following `moved`.
func askOwner[T any](ctx context.Context, v *View, key ring.Key, question string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	raw, err := v.deps.Ring.Router.CallOwner(ctx, key, ServiceStatus, []byte(question))
	if calls.CodeOf(err) == calls.CodeMoved {
		return nil, fmt.Errorf("the ring is converging and has no owner for that key yet: retry in a few seconds (%w)", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, &control.Error{Kind: control.KindTimeout, Text: fmt.Sprintf("the owner did not respond in %v: retry in a few seconds", answerTime)}
	}
	if err != nil {
		return nil, err
	}
	return decodeAnswer[T](raw)
}

func decodeAnswer[T any](raw []byte) (*T, error) {
	v := new(T)
	if err := unpack(raw, v); err != nil {
		return nil, fmt.Errorf("response: %w", err)
	}
	return v, nil
}

// pageSize is the number of URLs in one response, so that a listing blocks neither the owner's loop
// nor the network, and the longest records fit into one message.
const pageSize = 200

// hostsAtOnce is the number of hosts in one response: each needs disk reads in the owner's loop.
const hostsAtOnce = 100

// hostPage is a part of a peer's list of hosts; After is empty at the end.
type hostPage struct {
	Hosts []control.HostLine `json:"hosts"`
	After string             `json:"after,omitempty"`
}

// hostsHere lists hosts after a position in hex.
func (v *View) hostsHere(ctx context.Context, after string) (*hostPage, error) {
	var pos ring.Pos
	if after != "" {
		raw, err := parseHex(after, len(pos))
		if err != nil {
			return nil, rpc.Refuse("hosts: %v", err)
		}
		copy(pos[:], raw)
	}
	var list []owner.HostSummary
	if err := v.deps.Hosts.Look(ctx, func(o *owner.Owner) { list = o.HostsAfter(pos, hostsAtOnce) }); err != nil {
		return nil, err
	}
	page := &hostPage{}
	for i := range list {
		page.Hosts = append(page.Hosts, v.HostLine(&list[i]))
	}
	if len(list) == hostsAtOnce {
		last := ring.PosOf(list[len(list)-1].Key)
		page.After = fmt.Sprintf("%x", last[:])
	}
	return page, nil
}

// HostLine converts the summary of a host that this peer owns.
func (v *View) HostLine(h *owner.HostSummary) control.HostLine {
	line := control.HostLine{
		Host: h.Host, Key: h.Key.Hex(), Owner: v.deps.Self.String(), Seen: h.Accepted, Pending: h.Pending, Pages: h.OK, Left: h.Left,
		RTTMs: float64(h.WorkerRTTUs) / 1000, LeastRTTMs: float64(h.LeastRTTUs) / 1000,
	}
	if h.Worker != "" {
		line.Worker = peer.ID(h.Worker).String()
	}
	if h.Placed != "" {
		line.PlacedAt = peer.ID(h.Placed).String()
	}
	line.LatencyRow = v.latencyRow(h.Addrs)
	return line
}

func parseHex(s string, size int) ([]byte, error) {
	if len(s) != 2*size {
		return nil, fmt.Errorf("%d hexadecimal digits, must be %d", len(s), 2*size)
	}
	raw := make([]byte, size)
	_, err := fmt.Sscanf(s, "%x", &raw)
	return raw, err
}

// Hosts implements control.Backend.
func (v *View) Hosts(ctx context.Context, whole bool, fn func(control.HostLine) error) error {
	members, err := v.asked(ctx, whole)
	if err != nil {
		return err
	}
	var missing []error
	for _, id := range members {
		after := ""
		for {
			page, err := askPeer[hostPage](ctx, v, id, askHosts+" "+after)
			if err != nil {
				missing = append(missing, fmt.Errorf("hosts of %s: %w", id, err))
				break
			}
			for _, h := range page.Hosts {
				if err := fn(h); err != nil {
					return err
				}
			}
			if after = page.After; after == "" {
				break
			}
		}
	}
	return errors.Join(missing...)
}

// asked returns the peers of a listing: this one, or all members.
func (v *View) asked(ctx context.Context, whole bool) ([]peer.ID, error) {
	if !whole {
		return []peer.ID{v.deps.Self}, nil
	}
	r, err := v.walker.walk(ctx)
	if err != nil {
		return nil, err
	}
	var ids []peer.ID
	for _, m := range r.Members {
		id, err := peer.Decode(m.Peer)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// askPeer sends a request to one peer.
func askPeer[T any](ctx context.Context, v *View, of peer.ID, question string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	raw, err := v.deps.Ring.Net.Call(ctx, of, ServiceStatus, []byte(question))
	if err != nil {
		return nil, err
	}
	return decodeAnswer[T](raw)
}

// urlLines returns a function that appends finished URLs, with their sources, to a page.
func urlLines(store ondisk.Scanner, page *control.URLPage) func(id job.ID, f *owner.Final) {
	sources := ondisk.NewSources(store.Get)
	return func(id job.ID, f *owner.Final) {
		page.URLs = append(page.URLs, urlLine(id, f, sources.Of(ring.PosOf(ring.HostKey(link.Host(f.URL))), id, f.Via)))
	}
}

func urlLine(id job.ID, f *owner.Final, from *link.Source) control.URLLine {
	l := control.URLLine{
		URL: f.URL, Job: id.String(), Outcome: f.Outcome.String(), Status: f.Status, Redirect: f.Target(), Depth: f.Depth, Hops: f.Hops,
		Kind: f.Kind.String(), Tries: f.Tries, Size: f.Size, MIME: f.MIME, ETag: f.ETag, LastModified: f.LastModified, DurationMs: f.DurationMs,
		LinksLeftOut: f.LeftOut,
	}
	l.Via, l.HopPath, l.Seed = link.Provenance(from, f.URL, f.Kind, f.Depth, f.Hops)
	l.Detail = strings.TrimPrefix(strings.TrimPrefix(f.Detail, l.Redirect), " ")
	if len(f.Digest) > 0 {
		l.Digest = fmt.Sprintf("sha256:%x", f.Digest)
	}
	if f.FetchedMs > 0 {
		l.Fetched = time.UnixMilli(f.FetchedMs).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	if u, err := uuid.FromBytes(f.RecordID); err == nil {
		l.Record = "urn:uuid:" + u.String()
	}
	if f.Holder != "" {
		l.Holder = peer.ID(f.Holder).String()
	}
	return l
}
