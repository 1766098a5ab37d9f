//go:build unix

package p2p

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-msgio"

	"github.com/apoidea/apoidea/dht/calls"
)

// BenchmarkCall measures calls between two hosts of one process; cpu-us/op is user
// and system time of both sides together. Ours are measured beside what go-msgio
// would do in their place: a stream for each call, and one stream for all on which
// each message begins with the number of its call.
func BenchmarkCall(b *testing.B) {
	ways := []struct {
		name string
		make func(b *testing.B, client, server *Net) caller
	}{
		{"ours", ourCalls}, {"msgio-stream-a-call", streamACall}, {"msgio-one-stream", oneStream},
	}
	for _, transport := range transports {
		for _, size := range []int{64, 16 << 10} {
			for _, inFlight := range []int{1, 32} {
				for _, way := range ways {
					b.Run(fmt.Sprintf("%s/%d-bytes/%d-in-flight/%s", transport.name, size, inFlight, way.name), func(b *testing.B) {
						server := newNet(b, "bench", transport.listen, func(n *Net) { n.Handle("echo", echo) })
						client := newNet(b, "bench", transport.listen, nil)
						introduce(client, server)
						benchmarkCall(b, way.make(b, client, server), size, inFlight)
					})
				}
			}
		}
	}
}

// caller asks a request and waits for the answer.
type caller func(req []byte) ([]byte, error)

func benchmarkCall(b *testing.B, call caller, size, inFlight int) {
	req := make([]byte, size)
	if answer, err := call(req); err != nil || len(answer) != size {
		b.Fatalf("answer of %d bytes: %v", len(answer), err)
	}
	b.ReportAllocs()
	before := cpuTime(b)
	b.ResetTimer()
	var callers sync.WaitGroup
	for i := range inFlight {
		calls := b.N / inFlight
		if i < b.N%inFlight {
			calls++
		}
		callers.Go(func() {
			for range calls {
				if _, err := call(req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

func ourCalls(b *testing.B, client, server *Net) caller {
	return func(req []byte) ([]byte, error) { return client.Call(b.Context(), server.Self(), "echo", req) }
}

const benchProtocol protocol.ID = "/bench/1.0.0"

// benchStream opens a stream to a server on which serve runs at the other end.
func benchStream(b *testing.B, client, server *Net, serve network.StreamHandler) func() (network.Stream, error) {
	server.host.SetStreamHandler(benchProtocol, serve)
	if err := client.Connect(b.Context(), server.Self()); err != nil {
		b.Fatal(err)
	}
	return func() (network.Stream, error) {
		return client.host.NewStream(b.Context(), server.Self(), benchProtocol)
	}
}

func streamACall(b *testing.B, client, server *Net) caller {
	open := benchStream(b, client, server, func(s network.Stream) {
		defer s.Close()
		messages := msgio.NewVarintReaderSize(s, calls.MaxPayload)
		req, err := messages.ReadMsg()
		if err == nil {
			answer, _ := echo(b.Context(), "", req)
			_ = msgio.NewVarintWriter(s).WriteMsg(answer)
			messages.ReleaseMsg(req)
		}
	})
	return func(req []byte) ([]byte, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if err := msgio.NewVarintWriter(s).WriteMsg(req); err != nil {
			return nil, err
		}
		return msgio.NewVarintReaderSize(s, calls.MaxPayload).ReadMsg()
	}
}

func oneStream(b *testing.B, client, server *Net) caller {
	open := benchStream(b, client, server, func(s network.Stream) {
		w := msgio.NewVarintWriter(s)
		messages := msgio.NewVarintReaderSize(bufio.NewReaderSize(s, 4<<10), calls.MaxPayload)
		for {
			req, err := messages.ReadMsg()
			if err != nil {
				return
			}
			go func() {
				answer, _ := echo(b.Context(), "", req)
				_ = w.WriteMsg(answer)
				messages.ReleaseMsg(req)
			}()
		}
	})
	s, err := open()
	if err != nil {
		b.Fatal(err)
	}
	w := msgio.NewVarintWriter(s)
	var waiting sync.Map // number of a call -> chan []byte
	var last atomic.Uint64
	go func() {
		messages := msgio.NewVarintReaderSize(bufio.NewReaderSize(s, 4<<10), calls.MaxPayload)
		for {
			answer, err := messages.ReadMsg()
			if err != nil {
				return
			}
			if c, ok := waiting.LoadAndDelete(binary.BigEndian.Uint64(answer)); ok {
				c.(chan []byte) <- answer[8:]
			}
		}
	}()
	return func(req []byte) ([]byte, error) {
		id, answer := last.Add(1), make(chan []byte, 1)
		waiting.Store(id, answer)
		if err := w.WriteMsg(append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(req)), id), req...)); err != nil {
			return nil, err
		}
		return <-answer, nil
	}
}

// cpuTime is what this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
