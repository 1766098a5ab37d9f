package p2p

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kadpb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/member"
)

// newKadNet is a Net with its Kad.
func newKadNet(t *testing.T) (n *Net, k *Kad) {
	t.Helper()
	n = newNet(t, "test", "", func(n *Net) {
		var err error
		if k, err = NewKad(n); err != nil {
			t.Fatal(err)
		}
	})
	return n, k
}

// kadFrame is a message of so many bytes behind its length, filled up with empty peers of two
// bytes.
func kadFrame(t *testing.T, m *kadpb.Message, size int) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for len(raw) < size {
		raw = append(raw, 8<<3|2, 0)
	}
	return append(binary.AppendUvarint(nil, uint64(len(raw))), raw...)
}

// readKadFrame reads what a peer answers, whatever its length.
func readKadFrame(t *testing.T, s io.Reader) (raw []byte, err error) {
	t.Helper()
	r := bufio.NewReader(s)
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	raw = make([]byte, size)
	_, err = io.ReadFull(r, raw)
	return raw, err
}

func findNode() *kadpb.Message {
	return &kadpb.Message{Type: kadpb.Message_FIND_NODE, Key: []byte("0123456789")}
}

// TestKadFramesAreBounded: a stranger's frame of kad-dht within the bound is answered, and a longer
// one ends its stream.
func TestKadFramesAreBounded(t *testing.T) {
	n, _ := newKadNet(t)
	stranger := newNet(t, "test", "", nil)
	introduce(stranger, n)
	for _, row := range []struct {
		name     string
		frame    []byte
		answered bool
	}{
		{"small", kadFrame(t, findNode(), 0), true},
		{"as long as may be", kadFrame(t, findNode(), maxKadQuestion), true},
		{"too long", kadFrame(t, findNode(), maxKadQuestion+2), false},
		{"as long as an answer", kadFrame(t, findNode(), maxKadFrame), false},
		{"far too long", kadFrame(t, findNode(), 1<<20), false},
		{"announced", binary.AppendUvarint(nil, 4<<20), false},
		{"without an end of its length", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := stranger.host.NewStream(t.Context(), n.self, n.kadProtocol())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Reset()
			if err := s.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			for range 3 { // the second and third find the stream in step, or gone
				if _, err = s.Write(row.frame); err == nil {
					_, err = readKadFrame(t, s)
				}
				if row.answered != (err == nil) {
					t.Errorf("answered with %v", err)
				}
			}
			if wait, ok := err.(interface{ Timeout() bool }); ok && wait.Timeout() {
				t.Error("the peer still waits for the rest of the frame")
			}
		})
	}
}

// TestKadQuestionsArePaced: whoever asks without a pause is answered at a rate, on a few streams.
func TestKadQuestionsArePaced(t *testing.T) {
	n, _ := newKadNet(t)
	stranger := newNet(t, "test", "", nil)
	introduce(stranger, n)
	question := kadFrame(t, findNode(), 0)
	open := func() network.Stream {
		s, err := stranger.host.NewStream(t.Context(), n.self, n.kadProtocol())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Reset() })
		if _, err := s.Write(question); err != nil {
			t.Fatal(err)
		}
		return s
	}
	begun := time.Now()
	var answers atomic.Int64
	var all sync.WaitGroup
	for range maxKadStreams {
		s := open()
		if _, err := readKadFrame(t, s); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for time.Since(begun) < 2*time.Second {
				if _, err := s.Write(question); err != nil {
					t.Error(err)
					return
				}
				if _, err := readKadFrame(t, s); err != nil {
					t.Error(err)
					return
				}
				answers.Add(1)
			}
		})
	}
	if _, err := readKadFrame(t, open()); err == nil {
		t.Error("one stream more is answered")
	}
	all.Wait()
	if most := kadRate * (1 + time.Since(begun).Seconds()); float64(answers.Load()) > most {
		t.Errorf("%d answers, at most %.0f", answers.Load(), most)
	}
}

// TestKadAnswersAreBounded: what a peer answers that was asked is bounded as well.
func TestKadAnswersAreBounded(t *testing.T) {
	for _, row := range []struct {
		name string
		size int
		want bool
	}{
		{"as long as may be", maxKadFrame, true},
		{"too long", maxKadFrame + 2, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			n, k := newKadNet(t)
			liar := newNet(t, "test", "", func(liar *Net) {
				liar.host.SetStreamHandler(n.kadProtocol(), func(s network.Stream) {
					for {
						if _, err := readKadFrame(t, s); err != nil {
							return
						}
						if _, err := s.Write(kadFrame(t, findNode(), row.size)); err != nil {
							return
						}
					}
				})
			})
			introduce(n, liar)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := n.host.Network().DialPeer(ctx, liar.self); err != nil {
				t.Fatal(err)
			}
			_, err := k.dht.MessageSender().SendRequest(ctx, liar.self, findNode())
			if (err == nil) != row.want {
				t.Errorf("believed with %v", err)
			}
		})
	}
}

// TestStuffedAddressesLeaveRoom: peers that announce many addresses do not make the answers of
// others too long.
func TestStuffedAddressesLeaveRoom(t *testing.T) {
	n, k := newKadNet(t)
	ids := make([]peer.ID, 2*bucketSize)
	for i := range ids {
		key, err := member.GenerateIdentity(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ids[i], err = peer.IDFromPrivateKey(key); err != nil {
			t.Fatal(err)
		}
		for j := range 200 {
			a := ma.StringCast(fmt.Sprintf("/ip4/127.%d.%d.1/tcp/4001/p2p/%s/p2p-circuit", i, j, n.self))
			n.host.Peerstore().AddAddr(ids[i], a, peerstore.PermanentAddrTTL)
		}
	}
	asker := newNet(t, "test", "", nil)
	introduce(asker, n)
	var raw []byte
	answer := new(kadpb.Message)
	waitFor(t, "an answer of a full table", func() bool { // kad-dht removes peers that it cannot dial
		for _, id := range ids {
			if _, err := k.dht.RoutingTable().TryAddPeer(id, true, true); err != nil {
				t.Log(err) // a full bucket
			}
		}
		s, err := asker.host.NewStream(t.Context(), n.self, n.kadProtocol())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Reset()
		if _, err := s.Write(kadFrame(t, findNode(), 0)); err != nil {
			t.Fatal(err)
		}
		if raw, err = readKadFrame(t, s); err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(raw, answer); err != nil {
			t.Fatal(err)
		}
		return len(answer.GetCloserPeers()) == bucketSize
	})
	if len(raw) > maxKadFrame {
		t.Errorf("%d bytes", len(raw))
	}
	for _, p := range answer.GetCloserPeers() {
		if len(p.GetAddrs()) == 0 {
			t.Error("a peer without an address")
		}
	}
}
