package wire

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/permit"
)

func TestValidateManners(t *testing.T) {
	hosts := func(n int, host string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = host
		}
		return list
	}
	long := strings.Repeat("a", MaxSubject+1)
	for _, row := range []struct {
		name string
		err  error
		says string // empty: valid
	}{
		{"an admission", (&Admission{Job: bytesOf(16), Host: []string{"a"}}).Validate(), ""},
		{"as many as may be", (&Admission{Job: bytesOf(16), Host: hosts(MaxAdmissions, "a")}).Validate(), ""},
		{"too many", (&Admission{Job: bytesOf(16), Host: hosts(MaxAdmissions+1, "a")}).Validate(), "257 hosts"},
		{"of nothing", (&Admission{Job: bytesOf(16)}).Validate(), "0 hosts"},
		{"of no job", (&Admission{Host: []string{"a"}}).Validate(), "job ID of 0"},
		{"a host too long", (&Admission{Job: bytesOf(16), Host: []string{long}}).Validate(), "host of 301 bytes"},
		{"no host", (&Admission{Job: bytesOf(16), Host: []string{""}}).Validate(), "host of 0 bytes"},
		{"verdicts", (&AdmissionReply{Verdict: []byte{0, 1, 2, 3}}).Validate(4), ""},
		{"fewer verdicts", (&AdmissionReply{Verdict: bytesOf(3)}).Validate(4), "lengths"},
		{"an unknown verdict", (&AdmissionReply{Verdict: []byte{9}}).Validate(1), "verdict 9"},
		{"an opt-out", (&OptOut{Subject: "host a", Action: "opt-out", Host: "a"}).Validate(), ""},
		{"a long one", (&OptOut{Subject: long}).Validate(), "301 bytes"},
		{"permits", (&Permits{Prefix: bytesOf(5), Want: permit.MaxWant}).Validate(), ""},
		{"for half an address", (&Permits{Prefix: bytesOf(3)}).Validate(), "3 bytes"},
		{"for a long host", (&Permits{Prefix: bytesOf(5), Host: strings.Repeat("a", MaxHost+1)}).Validate(), "261 bytes"},
		{"too many wanted", (&Permits{Prefix: bytesOf(17), Want: permit.MaxWant + 1}).Validate(), "4097"},
		{"granted", (&PermitsReply{Permits: 7, HoldsMs: 60_000}).Validate(7), ""},
		{"more than wanted", (&PermitsReply{Permits: 8}).Validate(7), "8 for"},
		{"for longer than a chunk", (&PermitsReply{HoldsMs: 60_001}).Validate(7), "60001 ms"},
	} {
		if valid := row.err == nil; valid != (row.says == "") || !valid && !strings.Contains(row.err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.name, row.err, row.says)
		}
	}
}

// FuzzAdmission: what passes has a job, and hosts within their bounds.
func FuzzAdmission(f *testing.F) {
	seed(f, &Admission{Job: bytesOf(16), Host: []string{"a", "b.c:8"}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(Admission)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		_ = [16]byte(m.GetJob())
		for _, host := range m.GetHost() {
			if d := domain.Of(host); d == "" && host[0] != ':' || !strings.Contains(host, d) {
				t.Errorf("%q is of the domain %q", host, d)
			}
		}
	})
}

// FuzzPermits: what passes is read as a prefix or refused.
func FuzzPermits(f *testing.F) {
	seed(f, &Permits{Prefix: []byte{192, 0, 2, 7, 32}, Want: 9}, &Permits{Prefix: bytesOf(17)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(Permits)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		if p, err := permit.ParseName(m.GetPrefix()); err == nil && !p.IsValid() {
			t.Errorf("%x is %v", m.GetPrefix(), p)
		}
	})
}

// FuzzOptOut: what passes is read as a subject and an action or refused, and a subject that is read
// is read again as itself.
func FuzzOptOut(f *testing.F) {
	seed(f, &OptOut{Subject: "host a.example:8080", Action: "opt-out", Host: "a.example"}, &OptOut{Subject: "domain bücher.example", Action: "withdraw"},
		&OptOut{Subject: "domain [::1]"}, &OptOut{Subject: " host \u00ad"})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := new(OptOut)
		if proto.Unmarshal(raw, m) != nil || m.Validate() != nil {
			return
		}
		_, _ = optout.ParseAction(m.GetAction())
		s, err := optout.ParseSubject(m.GetSubject())
		if err != nil {
			return
		}
		if again, err := optout.ParseSubject(s.String()); err != nil || again != s {
			t.Errorf("%q is read as %+v, and that as %+v, %v", m.GetSubject(), s, again, err)
		}
		if !optout.Shows(optout.Token(s, optout.Out), s, optout.Out) || optout.Shows(optout.Token(s, optout.Out), s, optout.Back) {
			t.Errorf("the line of %s does not show what it asks for", s)
		}
	})
}
