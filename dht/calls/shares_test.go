package calls

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// strangers open two streams each to a service and write what they have to say on each; they read
// nothing.
func strangers(t *testing.T, e *Endpoint, n int, service string, say []byte) {
	t.Helper()
	for i := range 2 * n {
		far, _ := served(t, e, peer.ID(fmt.Sprintf("stranger%d", i/2)), service)
		go func() { _, _ = far.Write(say) }()
		t.Cleanup(func() { _ = far.Close() })
	}
	synctest.Wait()
}

// asks puts one request to a service as another peer, and returns the header of what came back.
func asks(t *testing.T, e *Endpoint, as peer.ID, service string, req []byte) header {
	t.Helper()
	far, ended := served(t, e, as, service)
	go func() { _, _ = far.Write(appendRequest(nil, 1, 0, req)) }()
	h, _ := next(t, newFrameReader(far))
	_ = far.Close()
	<-ended
	return h
}

// TestAnnouncedFramesKeepNobodyOut: large requests that are announced and do not come leave room
// for those that do.
func TestAnnouncedFramesKeepNobodyOut(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		strangers(t, e, 20, "echo", appendRequest(nil, 1, 0, make([]byte, MaxPayload))[:1<<10])
		if h := asks(t, e, "honest", "echo", make([]byte, 1<<20)); h.kind != kindAnswer {
			t.Errorf("a large request is answered with code %v", h.code)
		}
	})
}

// TestStalledFrameIsReset: a frame of which much has come fast may not rest for as long as a slow
// line would have taken for it.
func TestStalledFrameIsReset(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		far, ended := served(t, e, "stranger", "echo")
		if _, err := far.Write(appendRequest(nil, 1, 0, make([]byte, MaxPayload))[:3<<20]); err != nil {
			t.Fatal(err)
		}
		if took := endsAfter(ended); took > frameTime+time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

// TestUnreadAnswersAreBounded: who asks for long answers and does not read them has few made, and a
// known peer is answered meanwhile. When they are gone nothing is counted any more.
//
// Slow: fills the memory bounds of a real endpoint.
func TestUnreadAnswersAreBounded(t *testing.T) {
	unraced(t)
	if os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	t.Run("of a long service", func(t *testing.T) { testUnread(t, (*Endpoint).Long) })
	t.Run("of another", func(t *testing.T) { testUnread(t, func(*Endpoint, string) {}) })
}

func testUnread(t *testing.T, declare func(e *Endpoint, service string)) {
	const size = 1 << 20
	inBubble(t, func(t *testing.T, e *Endpoint) {
		e.network.(*pipes).known = "friend"
		declare(e, "long")
		var made atomic.Int64
		e.Handle("long", func(_ context.Context, _ peer.ID, req []byte) ([]byte, error) {
			made.Add(size)
			return make([]byte, size), nil
		})
		var many []byte
		for id := range uint64(200) {
			many = appendRequest(many, id, 0, nil)
		}
		for _, row := range []struct{ strangers, most int }{{1, maxAnswersOfPeer}, {60, maxAnswerBytes}} {
			strangers(t, e, row.strangers, "long", many)
			if held := e.in.answers.all; held > row.most || held < size {
				t.Errorf("%d bytes are held for %d strangers, at most %d", held, row.strangers, row.most)
			}
		}
		if n := made.Load(); e.service("long").long && n > 8*maxAnswerBytes { // those that are made at once may find the same room
			t.Errorf("%d bytes were made, of which %d have room", n, maxAnswerBytes)
		}
		if h := asks(t, e, "friend", "long", nil); h.kind != kindAnswer {
			t.Errorf("a known peer is answered with code %v", h.code)
		}
		if h := asks(t, e, "honest", "long", nil); h.code != CodeBusy {
			t.Errorf("another is answered with code %v, want busy", h.code)
		}
		time.Sleep(10 * time.Minute) // their streams are reset
		synctest.Wait()
		if h := asks(t, e, "honest", "long", nil); h.kind != kindAnswer || e.in.answers.all != 0 || len(e.in.answers.of) != 0 {
			t.Errorf("afterwards code %v; %d bytes are counted", h.code, e.in.answers.all)
		}
	})
}

// TestStrangersArePaced: the large requests of strangers are read at a rate, those of neighbours
// as they come; and whoever waits for its turn loses no time that its frame has.
func TestStrangersArePaced(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		e.network.(*pipes).known = "friend"
		take := func(as peer.ID, n int) time.Duration {
			begun := time.Now()
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if h := asks(t, e, as, "echo", make([]byte, MaxPayload)); h.kind != kindAnswer {
						t.Errorf("%s: code %v", as, h.code)
					}
				})
				synctest.Wait() // one after the other: few have room at once
			}
			all.Wait()
			return time.Since(begun)
		}
		if took := take("friend", 20); took > 0 {
			t.Errorf("a neighbour took %v", took)
		}
		const n = 40
		want := time.Duration(n-1) * time.Second * MaxPayload / strangersRate
		began := time.Now()
		for range n {
			take("stranger", 1)
		}
		if took := time.Since(began); took < want-time.Second || took > want+time.Second {
			t.Errorf("a stranger took %v, want about %v", took, want)
		}
		_ = e.in.pace.ReserveN(time.Now(), maxFrame) // others come first, for longer than a frame may take
		for range int(2*frameTime/time.Second) * strangersRate / maxFrame {
			_ = e.in.pace.ReserveN(time.Now(), maxFrame)
		}
		if took := take("stranger", 1); took < frameTime {
			t.Errorf("it came first, after %v", took)
		}
	})
}

// TestWaitingRequestsAreBounded: strangers whose requests wait in all handlers, and more behind
// them, hold no more than the share of strangers, of whatever size they are.
func TestWaitingRequestsAreBounded(t *testing.T) {
	unraced(t)
	for _, size := range []int{largeOfStrangers - 1, largeRequest - 1} {
		inBubble(t, func(t *testing.T, e *Endpoint) {
			var held atomic.Int64
			e.Handle("slow", func(ctx context.Context, _ peer.ID, req []byte) ([]byte, error) {
				held.Add(int64(len(req)))
				<-ctx.Done()
				return nil, nil
			})
			var many []byte
			for id := range uint64(300) {
				many = appendRequest(many, id, 0, make([]byte, size))
			}
			strangers(t, e, 100, "slow", many)
			time.Sleep(10 * time.Second) // they are read at a rate
			synctest.Wait()
			waiting := 0
			for _, st := range e.in.all() {
				waiting += st.bytes
			}
			if n := int(held.Load()) + waiting; n > maxLargeOfStrangers+200*(maxQueuedOfStrangers+handlersOfStrangers*largeOfStrangers) {
				t.Errorf("requests of %d bytes: %d bytes are held", size, n)
			}
		})
	}
}

// TestSlowFramesGiveWay: strangers who have taken all room of strangers for frames that they go on
// with now and then lose them to others, and get no room for a while.
func TestSlowFramesGiveWay(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		var far []net.Conn
		for i := range 8 {
			s, _ := served(t, e, peer.ID(fmt.Sprintf("stranger%d", i)), "echo")
			far = append(far, s)
			go func() { _, _ = s.Write(appendRequest(nil, 1, 0, make([]byte, MaxPayload))[:2<<20+4<<10]) }()
			time.Sleep(500 * time.Millisecond) // at once they would have no room beside each other
		}
		ask := func() Code { return asks(t, e, "honest", "echo", make([]byte, 128<<10)).code }
		if c := ask(); c != CodeBusy {
			t.Fatalf("with no room code %v", c)
		}
		taken := 0
		for range 20 {
			time.Sleep(time.Second)
			for _, s := range far {
				go func() { _, _ = s.Write(make([]byte, frameRate)) }()
			}
			synctest.Wait()
			if ask() == 0 {
				taken++
			}
		}
		if taken < 10 {
			t.Errorf("%d of 20 requests were taken", taken)
		}
	})
}

// TestSlowSendersStay: while there is room for others, who sends slowly does not give way to who
// has too much.
func TestSlowSendersStay(t *testing.T) {
	inBubble(t, func(t *testing.T, e *Endpoint) {
		slow, ended := served(t, e, "slow", "echo")
		frame := appendRequest(nil, 1, 0, make([]byte, 1<<20))
		go func() { _, _ = slow.Write(frame[:512<<10]) }()
		for i := range 4 {
			greedy, _ := served(t, e, "greedy", "echo")
			if i%2 == 0 {
				greedy, _ = served(t, e, "greedy", "other")
			}
			go func() { _, _ = greedy.Write(appendRequest(nil, 1, 0, make([]byte, MaxPayload))[:3<<20]) }()
		}
		for at := 512 << 10; at < len(frame); at += 32 << 10 {
			time.Sleep(time.Second)
			if _, err := slow.Write(frame[at:min(at+32<<10, len(frame))]); err != nil {
				t.Fatalf("after %d bytes: %v", at, err)
			}
			if at%(128<<10) == 0 {
				asks(t, e, "greedy", "echo", make([]byte, 2<<20))
			}
		}
		if h, _ := next(t, newFrameReader(slow)); h.kind != kindAnswer {
			t.Errorf("answered with code %v", h.code)
		}
		_ = slow.Close()
		<-ended
	})
}

// unraced skips a test that the race detector makes too slow; it has smaller siblings.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow with the race detector: not with -short")
	}
}
