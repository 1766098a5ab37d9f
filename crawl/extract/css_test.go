package extract

import (
	"net/http"
	"strings"
	"testing"
)

var cssCases = []struct{ css, want string }{
	{`@import "a.css"; @import url(b.css) screen; @IMPORT 'c.css' supports(x) "no";`, "+a.css +b.css +c.css"},
	{`p { background: URL( "a.png" ) , url('b.png'), url( c.png ) }`, "+a.png +b.png +c.png"},
	{`@font-face { font-family: "no"; src: local("no"), url(f.woff2) format("woff2") }`, "+f.woff2"},
	{`/* url(no) */ a{b:url(x)} /* url(no)`, "+x"},
	{`p{content:"url(no)";b:url(#no) url() url(data:,no) xurl(no) url-prefix(no)}`, ""},
	{`@namespace svg url(http://no.example/); @charset "no"; p{b:url(x)}`, "+x"},
	{`p{b:url(a\).png) url("b\"c.png")}`, "+a).png +b%22c.png"},
	{"p{content:'no\n; b:url(x)}", "+x"},
	{`@import url(//b.example/x.css`, "+https://b.example/x.css"},
	{`@import "x`, "+x"},
	{`p{b:url("\`, "+https://a.example/"},
	{`p{b:url(x\`, "+x/"},
}

func TestStyleSheet(t *testing.T) {
	var x Extractor
	var page Page
	for _, tc := range cssCases {
		err := x.StyleSheet(&page, site+"style.css", http.Header{"Content-Type": {"text/css; charset=utf-8"}}, []byte(tc.css))
		if got := list(page); got != tc.want || err != nil {
			t.Errorf("%q: %q, %v; want %q", tc.css, got, err, tc.want)
		}
	}
	if err := x.StyleSheet(&page, site, http.Header{"Content-Type": {"text/html"}}, []byte("@import 'no'")); err != nil || len(page.Links) > 0 {
		t.Errorf("of another type: %q, %v", list(page), err)
	}
}

// TestStylesOfPages extracts the requisites of style elements and attributes.
func TestStylesOfPages(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{`<style>@import "x";</style><style media=print>p{b:url(y?a&amp;b)}`, "+x +y?a&amp;b"},
		{`<p style="background:url(&quot;x&amp;y.png&quot;)">`, "+x&y.png"},
		{`<div style='b:url(x)'><a href=y STYLE="b:URL(z)"><blink style="b:url(w)">`, "+x y +z +w"},
		{`<template><style>p{b:url(no)}</style><p style="b:url(no)"></template>`, ""},
		{`<p title="url(no)" style="color:red"><textarea><p style="b:url(no)"></textarea>`, ""},
	} {
		if got := extractLinks(t, tc.body); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.body, got, tc.want)
		}
	}
	var x Extractor
	var page Page
	err := x.HTML(&page, site+"page", "text/html", []byte(`<style>@import "x"</style><p style="b:url(y)">`), Options{})
	if err != nil || len(page.Links) > 0 {
		t.Errorf("without requisites: %q, %v", list(page), err)
	}
}

// TestStyleSheetInLinearTime fails by its timeout if the time is not linear.
func TestStyleSheetInLinearTime(t *testing.T) {
	var x Extractor
	var page Page
	for _, part := range []string{"url(", "@import ", "/*", "\"", "\\", "url(\"", "@", "url(\\"} {
		body := []byte(strings.Repeat(part, 2<<20/len(part)))
		if err := x.StyleSheet(&page, site, http.Header{"Content-Type": {"text/css"}}, body); err != nil {
			t.Errorf("%q: %v", part, err)
		}
	}
}
