package node

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/wire"
)

// serviceHandover takes the records of hosts that came into this peer's arc.
const serviceHandover = "handover"

const (
	// handoverPart bounds the bytes of records in one message.
	handoverPart = 1 << 20
	// handoverAgain is the wait before hosts that could not be handed over are tried again.
	handoverAgain = 2 * time.Second
	// handoverTimeout bounds one part: the receiver answers when its disk has it.
	handoverTimeout = 20 * time.Second
)

// handover is what is known of hosts that this peer keeps and no longer answers for.
type handover struct {
	wake chan struct{}
}

// arcChanged has the hosts looked through. It does not block.
func (w *owners) arcChanged() {
	select {
	case w.handover.wake <- struct{}{}:
	default:
	}
}

// runHandover hands hosts that are outside of the arc to their owners, at the start and whenever the arc has changed, until ctx ends.
//
// The moment that a host's key is not this peer's any more, its owner answers `moved` and grants nothing; so the records stand still while they
// travel, and both sides may be interrupted at any point: the import merges, and only then are the records here removed. A lease that was granted
// here is waited out by the new owner, which sees it in the host's record.
func (w *owners) runHandover(ctx context.Context) error {
	w.arcChanged()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.handover.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		left, err := w.handOver(ctx)
		if err != nil {
			return unlessCanceled(err)
		}
		wait := time.Hour
		if left > 0 {
			wait = handoverAgain
		}
		timer.Reset(wait)
	}
}

// handOver goes through the hosts once and says how many are still here that should not be.
func (w *owners) handOver(ctx context.Context) (left int, err error) {
	var after owner.Pos
	for {
		var hosts []owner.HostSummary
		if err := w.loop.look(ctx, func(o *owner.Owner) { hosts = o.HostsAfter(after, pageSize) }); err != nil {
			return left, err
		}
		for _, h := range hosts {
			after = owner.PosOf(h.Key)
			if w.serves(h.Key) {
				continue
			}
			to, ok := w.router.ring.Guess(h.Key)
			if !ok || to.ID == w.self {
				left++ // the ring is settling
				continue
			}
			if err := w.handHost(ctx, to.ID, h); err != nil {
				if ctx.Err() != nil {
					return left, ctx.Err()
				}
				w.log.Debug("host not handed over yet", "host", h.Host, "peer", to.ID, "err", err)
				left++
			}
		}
		if len(hosts) < pageSize {
			return left, nil
		}
	}
}

// handHost sends all records of a host and removes them here once the other side has them on disk.
func (w *owners) handHost(ctx context.Context, to peer.ID, h owner.HostSummary) error {
	lo := owner.PosOf(h.Key)
	hi := nextPos(lo)
	part := &wire.HostRecords{Host: h.Host}
	var parts []*wire.HostRecords
	size := 0
	var err error
	if lerr := w.loop.look(ctx, func(o *owner.Owner) {
		err = o.Export(lo, hi, func(key, value []byte) bool {
			if size > 0 && size+len(key)+len(value) > handoverPart || len(part.GetKey()) == wire.MaxRecords {
				parts = append(parts, part)
				part, size = &wire.HostRecords{Host: h.Host}, 0
			}
			part.Key = append(part.Key, append([]byte(nil), key...))
			part.Value = append(part.Value, append([]byte(nil), value...))
			size += len(key) + len(value)
			return true
		})
	}); lerr != nil {
		return lerr
	}
	if err != nil {
		return err
	}
	part.Last = true
	for _, p := range append(parts, part) {
		if err := w.sendRecords(ctx, to, p); err != nil {
			return err
		}
	}
	if w.serves(h.Key) {
		return nil // it came back meanwhile; two copies merge
	}
	return w.loop.do(ctx, func(o *owner.Owner) { o.Remove(lo, hi) })
}

func (w *owners) sendRecords(ctx context.Context, to peer.ID, m *wire.HostRecords) error {
	raw, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	_, err = w.router.net.Call(ctx, to, serviceHandover, raw)
	return err
}

// nextPos is the position behind p; zero behind the last, which stands for the end of the circle.
func nextPos(p owner.Pos) owner.Pos {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			break
		}
	}
	return p
}

// handleRecords takes a part of a host's records from its earlier owner.
func (w *owners) handleRecords(ctx context.Context, _ peer.ID, raw []byte) ([]byte, error) {
	m := new(wire.HostRecords)
	if err := proto.Unmarshal(raw, m); err != nil {
		return nil, refuse("host records: %v", err)
	}
	if err := m.Validate(); err != nil {
		return nil, refuse("%v", err)
	}
	key := ring.HostKey(m.GetHost())
	if !w.serves(key) {
		return nil, w.router.moved(key)
	}
	kvs := make([]owner.KV, len(m.GetKey()))
	pos := owner.PosOf(key)
	for i := range kvs {
		kvs[i] = owner.KV{Key: m.GetKey()[i], Value: m.GetValue()[i]}
		if len(kvs[i].Key) < 1+len(pos) || owner.Pos(kvs[i].Key[1:]) != pos {
			return nil, refuse("host records: a key of another host")
		}
	}
	var err error
	if lerr := w.loop.do(ctx, func(o *owner.Owner) { err = o.Import(kvs) }); lerr != nil {
		return nil, lerr
	}
	if err != nil {
		return nil, refuse("%v", err)
	}
	return proto.Marshal(&wire.HostRecordsReply{})
}
