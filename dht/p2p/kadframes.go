package p2p

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"
)

const (
	// maxKadFrame bounds an answer of kad-dht in bytes, and maxKadQuestion a question, which is a
	// kind and a key. The library takes 4 MiB, and an empty part of two bytes takes fifty times
	// that when it is unpacked.
	maxKadFrame    = 16 << 10
	maxKadQuestion = 1 << 10
	// maxKadAddrs bounds the addresses of one peer in an answer, in bytes: a bucket of peers and
	// the one that was asked for fit into a frame, with an ID and its framing beside each.
	maxKadAddrs = maxKadFrame/(bucketSize+1) - 128
	// maxKadLength is how many bytes of a frame's length are read.
	maxKadLength = 3
	// maxKadStreams of one peer are answered at a time; one is what the library opens. kadRate is how
	// many questions of all peers together are answered in a second, and kadWrite how long an answer
	// may take to be read.
	maxKadStreams = 4
	kadRate       = 300
	kadWrite      = 15 * time.Second
)

// kadHost is the host as kad-dht sees it: what it reads is bounded, whoever opened the stream, and
// what it tells of others fits into the bound of those who read it.
type kadHost struct {
	host.Host
	life  context.Context //nolint:containedctx // the Net's: whoever asks waits for its turn until that ends
	pace  *rate.Limiter
	mu    sync.Mutex // guards the rest
	asked map[peer.ID]int
}

func newKadHost(n *Net) *kadHost {
	return &kadHost{Host: n.host, life: n.life, pace: rate.NewLimiter(kadRate, kadRate), asked: make(map[peer.ID]int)}
}

// SetStreamHandler implements host.Host.
func (h *kadHost) SetStreamHandler(id protocol.ID, handle network.StreamHandler) {
	h.Host.SetStreamHandler(id, func(s network.Stream) {
		from := s.Conn().RemotePeer()
		if !h.begins(from) {
			_ = s.Reset()
			return
		}
		defer h.ends(from)
		handle(&kadStream{Stream: s, most: maxKadQuestion, turn: func() error { return h.pace.Wait(h.life) }})
	})
}

// begins counts one more stream of a peer, unless it has as many as may be.
func (h *kadHost) begins(from peer.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked[from] >= maxKadStreams {
		return false
	}
	h.asked[from]++
	return true
}

// ends takes back what begins counted.
func (h *kadHost) ends(from peer.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked[from]--; h.asked[from] == 0 {
		delete(h.asked, from)
	}
}

// NewStream implements host.Host.
func (h *kadHost) NewStream(ctx context.Context, to peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, to, ids...)
	if err != nil {
		return nil, err
	}
	return &kadStream{Stream: s, most: maxKadFrame}, nil
}

// Peerstore implements host.Host.
func (h *kadHost) Peerstore() peerstore.Peerstore { return kadPeerstore{h.Host.Peerstore()} }

// kadPeerstore tells of each peer as many addresses as have room in an answer: one that announces
// thousands must not make the answers of others too long.
type kadPeerstore struct{ peerstore.Peerstore }

// PeerInfo implements peerstore.Peerstore; answers are made of it.
func (p kadPeerstore) PeerInfo(id peer.ID) peer.AddrInfo {
	info := p.Peerstore.PeerInfo(id)
	room := maxKadAddrs
	for i, a := range info.Addrs {
		if room -= len(a.Bytes()) + maxKadLength; room < 0 {
			info.Addrs = info.Addrs[:i]
			break
		}
	}
	return info
}

// kadStream passes on what is read of frames, uvarint(length) and so many bytes, and breaks off
// before the length of one that is too long is whole. One goroutine reads it at a time.
type kadStream struct {
	network.Stream
	turn   func() error // waits until a frame that came may be answered; nil if frames are answers
	most   int          // bytes of a frame
	left   int          // bytes of the frame that are still to come
	length int          // of the next frame, as far as it was read
	shift  uint         // bits of it that were read
}

// Read implements network.Stream.
func (s *kadStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if s.left > 0 {
			part := min(s.left, len(rest))
			s.left, rest = s.left-part, rest[part:]
			continue
		}
		s.length |= int(rest[0]&0x7f) << s.shift
		s.shift += 7
		more := rest[0] >= 0x80
		if s.length > s.most || more && s.shift >= 7*maxKadLength {
			_ = s.Reset()
			return 0, fmt.Errorf("kad-dht: a frame of over %d bytes", s.most)
		}
		if rest = rest[1:]; !more {
			s.left, s.length, s.shift = s.length, 0, 0
			if s.turn != nil {
				if err := s.turn(); err != nil {
					return 0, err
				}
			}
		}
	}
	return n, err
}

// Write implements network.Stream.
func (s *kadStream) Write(b []byte) (int, error) {
	if s.turn != nil {
		if err := s.SetWriteDeadline(time.Now().Add(kadWrite)); err != nil {
			return 0, err
		}
	}
	return s.Stream.Write(b)
}
