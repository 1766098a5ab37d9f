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
	// maxKadFrame is the maximum size of a kad-dht answer in bytes, maxKadQuestion that of a request,
	// which is a kind and a key. The library accepts 4 MiB, and an empty part of two bytes takes fifty
	// times that decoded.
	maxKadFrame    = 16 << 10
	maxKadQuestion = 1 << 10
	// maxKadAddrs is the maximum size of the addresses of one peer in an answer, in bytes: a bucket of
	// peers and the answering peer, with IDs and framing, fit into a frame.
	maxKadAddrs = maxKadFrame/(bucketSize+1) - 128
	// maxKadLength is the maximum length in bytes of a frame's length prefix.
	maxKadLength = 3
	// maxKadStreams is the number of concurrent streams of one peer; the library opens one. kadRate is
	// the number of answers per second to all peers, kadWrite the timeout of writing an answer.
	maxKadStreams = 4
	kadRate       = 300
	kadWrite      = 15 * time.Second
)

// kadHost wraps the host for kad-dht: it limits the frames that are read and the addresses that are
// sent.
type kadHost struct {
	host.Host
	life  context.Context //nolint:containedctx // the Net's: requests wait for the rate limit until it ends
	pace  *rate.Limiter
	mu    sync.Mutex // guards the fields below
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

// begins counts one more stream of a peer; false if that exceeds the limit.
func (h *kadHost) begins(from peer.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked[from] >= maxKadStreams {
		return false
	}
	h.asked[from]++
	return true
}

// ends releases the count of begins.
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

// kadPeerstore returns at most as many addresses of a peer as fit into an answer: a peer that
// announces thousands must not make the answers of others too long.
type kadPeerstore struct{ peerstore.Peerstore }

// PeerInfo implements peerstore.Peerstore; answers are built from it.
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

// kadStream checks the frames that are read, uvarint(length) and the body, and fails before it
// passes on the length of one that is too long. One goroutine reads it at a time.
type kadStream struct {
	network.Stream
	turn   func() error // waits for the rate limit before a request is answered; nil if frames are answers
	most   int          // maximum bytes of a frame
	left   int          // bytes left of the current frame
	length int          // of the next frame, as far as read
	shift  uint         // bits of it read so far
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
