package inspect

import (
	"reflect"
	"testing"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
)

// TestURLLineHasWholeRecord checks that each field of the record of a URL changes its line of the
// export.
func TestURLLineHasWholeRecord(t *testing.T) {
	plain := urlLine(job.ID{}, &owner.Final{}, nil)
	fields := reflect.TypeFor[owner.Final]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "Revisit" { // nothing sets it yet
			continue
		}
		var f owner.Final
		switch v := reflect.ValueOf(&f).Elem().Field(i); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Slice:
			v.SetBytes(make([]byte, 16))
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		default:
			v.SetUint(1)
		}
		var from *link.Source
		if name == "Via" {
			from = &link.Source{URL: "http://a.example/"}
		}
		if urlLine(job.ID{}, &f, from) == plain {
			t.Errorf("%s is not exported", name)
		}
	}
}

// TestURLLineOfRedirect checks that the target of a redirect is exported, and a detail that is none
// as such.
func TestURLLineOfRedirect(t *testing.T) {
	const target = "http://a.example/new"
	f := owner.Final{Outcome: link.OutcomeRedirect}
	f.SetTarget(target)
	if l := urlLine(job.ID{}, &f, nil); l.Redirect != target || l.Detail != "" {
		t.Errorf("redirect %q, detail %q, want the target alone", l.Redirect, l.Detail)
	}
	f.Detail = "taken from the archive by a repair"
	if l := urlLine(job.ID{}, &f, nil); l.Redirect != "" || l.Detail != f.Detail {
		t.Errorf("redirect %q, detail %q of a redirect without a target", l.Redirect, l.Detail)
	}
}
