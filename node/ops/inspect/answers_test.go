package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// liar is a peer that is asked by one that is alone, and answers what it likes.
type liar struct {
	alone
	answer []byte
}

func (l *liar) Call(context.Context, peer.ID, string, []byte) ([]byte, error) { return l.answer, nil }

func (l *liar) view() *View {
	v := l.alone.view()
	v.deps.Ring.Net = l
	return v
}

// stuffed is an answer of the largest size, full of the smallest elements in a list of that name;
// without a name the answer is the list.
func stuffed(name, element string) []byte {
	begin, end := "[", "]"
	if name != "" {
		begin, end = fmt.Sprintf(`{%q:[`, name), "]}"
	}
	n := (calls.MaxPayload - len(begin) - len(end)) / (len(element) + 1)
	return []byte(begin + strings.Repeat(element+",", n-1) + element + end)
}

// TestAnswersTakeLittle: an answer of another peer that is full of empty parts is refused before it
// takes memory.
func TestAnswersTakeLittle(t *testing.T) {
	ids := rpctest.NewPeers(t, 2)
	l := &liar{alone: alone{self: dht.Peer{ID: ids[0]}}}
	ask := map[string]func(v *View) error{
		"hosts":  func(v *View) error { _, err := askPeer[hostPage](t.Context(), v, ids[1], askHosts); return err },
		"urls":   func(v *View) error { _, err := v.URLs(t.Context(), ids[1].String(), ""); return err },
		"report": func(v *View) error { _, err := v.reportOf(t.Context(), ids[1], 0); return err },
		"files":  func(v *View) error { _, err := filesOf(t.Context(), v.lender(ids[1].String())); return err },
	}
	for _, row := range []struct {
		ask    string
		answer []byte
	}{
		{"hosts", stuffed("hosts", "{}")},
		{"urls", stuffed("urls", "{}")},
		{"report", stuffed("jobs", "{}")},
		{"report", stuffed("jobs", "{}")[:maxReport]},
		{"report", stuffed("peers", "{}")},
		{"files", stuffed("", "{}")},
		{"files", stuffed("", "[]")},
	} {
		t.Run(row.ask, func(t *testing.T) {
			l.answer = row.answer
			v := l.view()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ask[row.ask](v)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 1<<20 {
				t.Errorf("%d bytes of answer took %d bytes of memory: %v", len(row.answer), took, err)
			}
		})
	}
}

// TestFullAnswersPass: what honest peers answer is read, however much there is.
func TestFullAnswersPass(t *testing.T) {
	text := strings.Repeat(`{["a,b\`, 20)
	hosts, urls := &hostPage{After: text}, &control.URLPage{}
	var files []control.ArchiveFile
	for range hostsAtOnce {
		hosts.Hosts = append(hosts.Hosts, control.HostLine{Host: text, Key: text, Owner: text, Worker: text, Pages: 1})
	}
	for range pageSize {
		urls.URLs = append(urls.URLs, control.URLLine{URL: text, Job: text, Outcome: text, Digest: text, Record: text, Holder: text})
	}
	for range maxFileList {
		files = append(files, control.ArchiveFile{Name: text, Bytes: 1, Open: true})
	}
	m := new(report)
	for len(m.Jobs) < 1024 {
		j := control.JobCounts{Job: text, Outcomes: map[string]int64{}}
		for i := range 20 {
			j.Outcomes[fmt.Sprint(i)] = 1
		}
		m.Jobs = append(m.Jobs, j)
	}
	for _, v := range []any{hosts, urls, files, m} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := countAnswer(raw); err != nil {
			t.Errorf("%T of %d bytes: %v", v, len(raw), err)
		}
	}
}

// FuzzAnswer: what passes takes no more than its bounds allow, and no answer ends the peer.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"jobs":[{},{}]}`, `"\"`, `]]]]{[`, `{"a":"b\\","c":[1,2]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(report)
		if unpack(raw, m) == nil && len(m.Jobs)+len(m.Leaves) > maxAnswerElements {
			t.Error("more elements than were counted")
		}
	})
}
