package calls

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestFramesComeBack(t *testing.T) {
	var b []byte
	b = appendRequest(b, 1, 1500*time.Microsecond, []byte("ask"))
	b = appendAnswer(b, 1<<40, nil)
	b = appendFailure(b, 7, &Error{Code: CodeMoved, Detail: []byte("hint"), Message: "gone"})
	b = appendFailure(b, 8, &Error{Code: CodeBusy, Detail: make([]byte, MaxErrorDetail+1), Message: strings.Repeat("m", 600)})
	frames := newFrameReader(bytes.NewReader(b))

	h, payload := next(t, frames)
	if h.kind != kindRequest || h.id != 1 || h.wait != 2*time.Millisecond || string(payload) != "ask" {
		t.Errorf("request: %+v %q", h, payload)
	}
	h, payload = next(t, frames)
	if h.kind != kindAnswer || h.id != 1<<40 || len(payload) != 0 {
		t.Errorf("answer: %+v %q", h, payload)
	}
	total := h.frame
	h, err := frames.header()
	if err != nil {
		t.Fatal(err)
	}
	e, err := frames.failure(h)
	if err != nil || h.id != 7 || e.Code != CodeMoved || string(e.Detail) != "hint" || e.Message != "gone" {
		t.Errorf("failure: %+v %+v %v", h, e, err)
	}
	if h, err = frames.header(); err != nil {
		t.Fatal(err)
	}
	if e, err = frames.failure(h); err != nil || len(e.Detail) != 0 || len(e.Message) != MaxErrorMessage {
		t.Errorf("failure beyond its bounds: %+v %v", e, err)
	}
	if _, err := frames.header(); !errors.Is(err, io.EOF) || total == 0 {
		t.Errorf("at the end: %v", err)
	}
}

func next(t *testing.T, frames frameReader) (header, []byte) {
	t.Helper()
	h, err := frames.header()
	if err != nil {
		t.Fatal(err)
	}
	payload, err := frames.payload(h)
	if err != nil {
		t.Fatal(err)
	}
	return h, payload
}

func TestTruncatedFrames(t *testing.T) {
	whole := appendFailure(nil, 300, &Error{Code: CodeMoved, Detail: []byte("hint"), Message: "gone"})
	for cut := 1; cut < len(whole); cut++ {
		frames := newFrameReader(bytes.NewReader(whole[:cut]))
		h, err := frames.header()
		if err == nil {
			_, err = frames.failure(h)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// FuzzFrames reads whatever comes: it must end, stay within the frame's length,
// and what it takes must read the same when written again.
func FuzzFrames(f *testing.F) {
	f.Add(appendRequest(nil, 1, time.Second, []byte("ask")))
	f.Add(appendAnswer(appendAnswer(nil, 1<<63, []byte("a")), 2, nil))
	f.Add(appendFailure(nil, 3, &Error{Code: CodeMoved, Detail: []byte("hint"), Message: "gone"}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f, 1})
	f.Add([]byte{4, 3, 1, 2, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		frames := newFrameReader(bytes.NewReader(data))
		for {
			h, err := frames.header()
			if err != nil {
				return
			}
			if h.size < 0 || h.size > h.frame || h.frame > maxFrame+10 || h.detail > h.size {
				t.Fatalf("impossible header %+v", h)
			}
			if h.size > len(data) {
				return // the payload cannot be there
			}
			payload, err := frames.payload(h)
			if err != nil {
				return
			}
			var again []byte
			switch h.kind {
			case kindRequest:
				again = appendRequest(nil, h.id, h.wait, payload)
			case kindAnswer:
				again = appendAnswer(nil, h.id, payload)
			case kindFailure:
				again = appendFailure(nil, h.id, &Error{Code: h.code, Detail: payload[:h.detail], Message: string(payload[h.detail:])})
			}
			back, err := newFrameReader(bytes.NewReader(again)).header()
			back.frame = h.frame // a longer varint says the same
			if err != nil || back != h {
				t.Fatalf("%+v was read as %+v, %v", h, back, err)
			}
		}
	})
}
