package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
)

// element is what a tag means for text.
type element uint8

const (
	inline    element = iota
	block             // begins and ends a line
	paragraph         // an empty line before and after
	br                // ends a line
	cell              // a tab before
	pre               // white space counts
	hidden            // raw text that is not shown
	title             // raw text that is not part of the page
	template          // markup that is not shown
	style             // inline, reopened in each block by a parser of HTML
)

var elements = make(map[string]element)

func init() {
	for el, names := range map[element]string{
		block: "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure footer form " +
			"header hr html legend li main menu nav ol option optgroup search section select summary table tbody tfoot thead tr ul",
		paragraph: "p h1 h2 h3 h4 h5 h6",
		br:        "br",
		cell:      "td th",
		pre:       "pre listing xmp plaintext",
		hidden:    "script style noscript iframe noembed noframes textarea",
		title:     "title",
		template:  "template",
		style:     "b big code em font i nobr s small strike strong tt u",
	} {
		for name := range strings.FieldsSeq(names) {
			elements[name] = el
		}
	}
}

// html appends the text of a document to x.out. With wantMain it sets x.markup: the document
// without scripts, comments and inline styles.
func (x *Extractor) html(doc []byte, xml, wantMain bool) {
	x.markup, x.tags = x.markup[:0], 0
	within := inline // the open element with raw text
	templates := 0
	tokens := html.NewTokenizer(bytes.NewReader(doc))
	for kind := tokens.Next(); kind != html.ErrorToken && !x.out.full(); kind = tokens.Next() {
		raw, el := tokens.Raw(), within
		isTag, end := kind != html.TextToken, kind == html.EndTagToken
		switch {
		case kind == html.CommentToken || kind == html.DoctypeToken:
			continue
		case isTag:
			void := xml && kind == html.SelfClosingTagToken
			name, _ := tokens.TagName()
			el, within = elements[string(name)], inline
			if void {
				tokens.NextIsNotRawText()
			}
			if !end && !void && (el == hidden || el == title) {
				within = el
			}
			if el == template && end {
				templates = max(templates-1, 0)
			} else if el == template && !void {
				templates++
			}
		}
		if templates > 0 {
			continue
		}
		if wantMain && el != hidden && el != template && el != style {
			x.tags++
			if isTag || bytes.IndexByte(raw, '<') < 0 {
				x.markup = append(x.markup, raw...)
			} else { // the parser may not know that it is text, for example in SVG
				x.markup = append(x.markup, bytes.ReplaceAll(raw, []byte("<"), []byte("&lt;"))...)
			}
		}
		switch {
		case isTag:
			x.out.tag(el, !end)
		case within != inline:
		case bytes.IndexByte(raw, '&') >= 0:
			x.out.text([]byte(html.UnescapeString(string(raw))))
		default:
			x.out.text(raw)
		}
	}
}

// mainText returns the main text of a page, as Readability finds it.
func mainText(markup []byte) (string, error) {
	p := readability.NewParser()
	p.DisableJSONLD = true
	doc, err := html.Parse(bytes.NewReader(markup))
	if err != nil {
		return "", fmt.Errorf("main text: %w", err)
	}
	article, err := p.ParseAndMutate(doc, nil)
	if err != nil || article.Node == nil {
		return "", err
	}
	var b strings.Builder
	err = article.RenderText(&b)
	return cut(printable(b.String()), MaxBytes), err
}

// Limits of the title of a page, in bytes: of the search and of the text.
const (
	titleWithin   = 64 << 10
	MaxTitleBytes = 500
)

// Title returns the text of the first title element; empty without one.
func Title(doc []byte) string {
	tokens := html.NewTokenizer(bytes.NewReader(doc[:min(len(doc), titleWithin)]))
	for tokens.Next() != html.ErrorToken {
		if token := tokens.Token(); token.Type == html.StartTagToken && token.Data == "title" && tokens.Next() == html.TextToken {
			title := printable(strings.Join(strings.Fields(tokens.Token().Data), " "))
			return strings.ToValidUTF8(title[:min(len(title), MaxTitleBytes)], "")
		}
	}
	return ""
}

// printable drops control characters other than tabs and line breaks.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}
