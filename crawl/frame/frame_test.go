package frame

import (
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/extract"
)

// TestOwn: words that most pages of a host carry are its frame, and numbers are no words; hosts do
// not share a frame, and the one met longest ago is forgotten.
func TestOwn(t *testing.T) {
	var fs Hosts
	terms := func(own ...uint32) []uint32 { return append([]uint32{2, 4, 6}, own...) }
	for i := range uint32(framePages) {
		fs.Own("a.example", terms(1000+2*i))
	}
	none := fs.Own("a.example", terms())
	numbers := fs.Own("a.example", terms(extract.Number|50))
	words := fs.Own("a.example", terms(70, 72))
	switch {
	case none.Words != None || none.All != None || none.Count != 0:
		t.Errorf("a page of its host's frame alone: %+v", none)
	case numbers.Words != None || numbers.All == None:
		t.Errorf("a page of numbers: %+v", numbers)
	case words.Words == None || words.Count != 2:
		t.Errorf("a page of two words: %+v", words)
	}
	if other := fs.Own("b.example", terms()); other.Count != 3 {
		t.Errorf("another host's first page: %+v", other)
	}
	for i := range maxFrames {
		fs.Own(fmt.Sprintf("h%d.example", i), nil)
	}
	if again := fs.Own("a.example", terms()); len(fs.hosts) > maxFrames || again.Count != 3 {
		t.Errorf("%d hosts are known; the first of them says %+v", len(fs.hosts), again)
	}
}
