package calls

import (
	"bytes"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// served is the far end of a stream that an endpoint serves as the stranger's, and when that ended.
func served(t *testing.T, e *Endpoint, from peer.ID, service string) (far net.Conn, ended chan struct{}) {
	t.Helper()
	far, near := net.Pipe()
	ended = make(chan struct{})
	go func() {
		e.Serve(service, from, pipe{near})
		close(ended)
	}()
	return far, ended
}

// endsAfter waits until a stream ends, and says how long that took.
func endsAfter(ended <-chan struct{}) time.Duration {
	begin := time.Now()
	<-ended
	return time.Since(begin)
}

// inBubble runs a test in virtual time, with an endpoint that echoes.
func inBubble(t *testing.T, f func(t *testing.T, e *Endpoint)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e, _ := newEndpoint(t, "server")
		e.Handle("echo", echo)
		f(t, e)
	})
}

// TestIdleStreamIsReset: who opens a stream and sends nothing loses it; one that is quiet between
// whole frames stays.
func TestIdleStreamIsReset(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		_, ended := served(t, e, "stranger", "echo")
		if took := endsAfter(ended); took != FirstByte {
			t.Errorf("a stream without a byte ended after %s", took)
		}
		far, ended := served(t, e, "honest", "echo")
		frames := newFrameReader(far)
		for id := range uint64(3) {
			if _, err := far.Write(appendRequest(nil, id, 0, []byte("x"))); err != nil {
				t.Fatal(err)
			}
			next(t, frames)
			time.Sleep(2 * time.Minute)
		}
		select {
		case <-ended:
			t.Error("a stream that is quiet between frames was ended")
		default:
		}
		_ = far.Close()
		<-ended
	})
}

// TestDrippedFrameIsReset: a frame that has begun has its time, which does not grow with the length
// that it announces.
func TestDrippedFrameIsReset(t *testing.T) {
	for _, row := range []struct {
		name string
		size int
		most time.Duration
	}{
		{"small", 100, frameTime + time.Second},
		{"large", 1 << 20, frameTime + time.Second},
		{"the largest", MaxPayload, frameTime + time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, e *Endpoint) {
				far, ended := served(t, e, "stranger", "echo")
				frame := appendRequest(nil, 1, 0, make([]byte, row.size))
				var dripper sync.WaitGroup
				dripper.Go(func() {
					for ; ; frame = frame[1:] {
						if _, err := far.Write(frame[:1]); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})
				defer dripper.Wait()
				if took := endsAfter(ended); took < frameTime || took > row.most {
					t.Errorf("ended after %s, want up to %s", took, row.most)
				}
			})
		})
	}
}

// TestSlowLineIsServed: the largest frame comes over a line of 20 KiB a second, and its answer
// leaves over it.
func TestSlowLineIsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		far, ended := served(t, e, "slow", "echo")
		frame := appendRequest(nil, 1, 0, bytes.Repeat([]byte("x"), MaxPayload))
		for len(frame) > 0 {
			n, err := far.Write(frame[:min(20<<10, len(frame))])
			if err != nil {
				t.Fatal(err)
			}
			frame = frame[n:]
			time.Sleep(time.Second)
		}
		for piece, left := make([]byte, 4<<10), MaxPayload; left > 0; time.Sleep(time.Second / 4) {
			n, err := far.Read(piece)
			if err != nil {
				t.Fatalf("with %d bytes left of the answer: %v", left, err)
			}
			left -= n
		}
		_ = far.Close()
		<-ended
	})
}

// TestUnreadAnswerIsReset: who asks and does not read loses the stream.
func TestUnreadAnswerIsReset(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		far, ended := served(t, e, "stranger", "echo")
		if _, err := far.Write(appendRequest(nil, 1, 0, []byte("x"))); err != nil {
			t.Fatal(err)
		}
		if took := endsAfter(ended); took != WriteTime {
			t.Errorf("ended after %s", took)
		}
	})
}

// TestSippedAnswerIsReset: who asks for much and reads a little now and then loses the stream.
func TestSippedAnswerIsReset(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		far, ended := served(t, e, "stranger", "echo")
		if _, err := far.Write(appendRequest(nil, 1, 0, make([]byte, 1<<20))); err != nil {
			t.Fatal(err)
		}
		var sipper sync.WaitGroup
		sipper.Go(func() {
			for sip := make([]byte, 100); ; time.Sleep(10 * time.Second) {
				if _, err := far.Read(sip); err != nil {
					return
				}
			}
		})
		defer sipper.Wait()
		if took := endsAfter(ended); took > WriteTime+time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

// TestAnnouncedFrameHoldsLittle: a frame has the memory of what came of it, and not of what it
// announces.
func TestAnnouncedFrameHoldsLittle(t *testing.T) {
	far, near := net.Pipe()
	frames := newTimedFrames(pipe{near})
	go func() {
		_, _ = far.Write(appendRequest(nil, 1, 0, make([]byte, MaxPayload))[:100<<10])
		_ = far.Close()
	}()
	h, err := frames.header()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, held, err := frames.payload(h, largeRequest, func(int) bool { return true })
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 512<<10 || held > 256<<10 || err == nil {
		t.Errorf("%d bytes, %d counted, for 100 KiB of %d: %v", took, held, h.size, err)
	}
}

// TestRestIsBounded: who asks once and then rests loses the stream within a minute.
func TestRestIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		far, ended := served(t, e, "stranger", "echo")
		if _, err := far.Write(appendRequest(nil, 1, 0, []byte("x"))); err != nil {
			t.Fatal(err)
		}
		next(t, newFrameReader(far))
		done := make(chan struct{})
		var sweeper sync.WaitGroup
		sweeper.Go(func() {
			for tick := time.NewTicker(SweepEvery); ; {
				select {
				case <-tick.C:
					e.Sweep()
				case <-done:
					return
				}
			}
		})
		if took := endsAfter(ended); took > time.Minute {
			t.Errorf("ended after %s", took)
		}
		close(done)
		sweeper.Wait()
	})
}
