package extract

import (
	"net/http"
	"testing"
)

// linkCases follow the HTML Standard (elements, syntax, tokenization) from group to group; each was
// written from its text. What is found is written as in TestHTML: relative to https://a.example/d/,
// of which the document is "page", requisites marked +, nofollow marked !.
var linkCases = []struct {
	group string
	cases []struct{ body, want string }
}{
	{"a and area", []struct{ body, want string }{
		{`<a href="x"><b>y</b></a>`, "x"},
		{`<a name=x>y</a>`, ""},
		{`<map name=m><area shape=rect coords=0,0,1,1 href=x></map>`, "x"},
		{`<a target=_blank rel="noopener noreferrer" href=x>`, "x"},
		{`<a download href=x.zip>`, "x.zip"},
		{`<a ping=no href=x>`, "x"},
		{`<a href=X>`, "X"},
		{`<a href="//b.example/x">`, "https://b.example/x"},
		{`<a href="http:x">`, "http://x/"},
		{`<a href="https:x">`, "x"},
		{`<a href=" x ">`, "x"},
		{"<a href=\"x\ny\">", "xy"},
		{`<a href="x y">`, "x%20y"},
		{`<a href="\x">`, "https://a.example/x"},
		{`<a href="?q"><a href="#f">`, "page?q page"},
		{`<a href="tel:1"><a href="mailto:x@a.example"><a href="about:blank"><a href="blob:x">`, ""},
		{`<a href="http://[x"><a href="http://a.example:0x/">`, ""},
	}},
	{"what names no document", []struct{ body, want string }{
		{`<form action=no><button formaction=no></form>`, ""},
		{`<q cite=no><blockquote cite=no><ins cite=no><del cite=no>`, ""},
		{`<b href=no><div src=no><p data=no>`, ""},
		{`<input src=no><input type=text src=no>`, ""},
		{`<img longdesc=no alt=x>`, ""},
		{`<html manifest=no>`, ""},
		{`<p>https://a.example/no</p>`, ""},
	}},
	{"attributes", []struct{ body, want string }{
		{`<a href = x>`, "x"},
		{"<a\nhref\t=\f'x'\n>", "x"},
		{`<a href="x"title=t>`, "x"},
		{`<a/href=x/>`, "x/"},
		{`<a href="x"/>`, "x"},
		{`<a href=x"y>`, "x%22y"},
		{`<a href='x"y'>`, "x%22y"},
		{`<a href=x=y>`, "x=y"},
		{`<a title="<a href=no>" href=x>`, "x"},
		{`<a title='>' href=x>`, "x"},
		{`<a title=a>b href=no>`, ""},
		{`<a ="no" href=x>`, "x"},
		{`<a "href=no" href=x>`, "x"},
		{`<a data-href=no href=x>`, "x"},
		{`<a HREF=x href=no>`, "x"},
		{`<a href="x' href='no">`, "x'%20href='no"},
		{`<a href="x" y="><a href=no>`, ""},
	}},
	{"tags", []struct{ body, want string }{
		{`< a href=no>`, ""},
		{`<ahref=no>`, ""},
		{`<a<b href=no>`, ""},
		{`<abbr href=no>`, ""},
		{`<a:b href=no>`, ""},
		{`</a href=no>`, ""},
		{`<<a href=x>`, "x"},
		{`<p<a href=no>`, ""},
		{`1 < 2 <a href=x>`, "x"},
		{`<a href=x`, ""},
		{`<A hReF=x></A>`, "x"},
	}},
	{"comments and declarations", []struct{ body, want string }{
		{`<!-- > <a href=no> --><a href=x>`, "x"},
		{`<!---><a href=x>`, "x"},
		{`<!-- --!><a href=x>`, "x"},
		{`<!-- -- ><a href=no>--><a href=x>`, "x"},
		{`<!--<!--<a href=no>--><a href=x>-->`, "x"},
		{`<!-- <a href=no>`, ""},
		{`<!doctype html "><a href=x>`, "x"},
		{`<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://no.example/"><a href=x>`, "x"},
		{`<?xml version="1.0"?><a href=x>`, "x"},
		{`<?php echo "<a href=no>" ?><a href=x>`, "x"},
		{`<![CDATA[<a href=no>]]><a href=x>`, "x"},
		{`<!-><a href=x>`, "x"},
		{`</><a href=x></1 <a href=no>`, "x"},
	}},
	{"text that is no markup", []struct{ body, want string }{
		{`<script>document.write("<a href=no>")</script><a href=x>`, "x"},
		{`<script>if (a<b) {}</script><a href=x>`, "x"},
		{`<script type="text/template"><a href=no></script>`, ""},
		{`<script>"</scr"+"ipt>"</script x=y><a href=x>`, "x"},
		{`<script><!-- <script> </script> --> </script><a href=x>`, "x"},
		{`<style>a:after{content:"</a><a href=no>"}</style><a href=x>`, "x"},
		{`<title></titles><a href=no></title><a href=x>`, "x"},
		{`<title>&lt;/title><a href=no></TITLE><a href=x>`, "x"},
		{`<textarea></textarea><a href=x>`, "x"},
		{`<textarea><a href=no>`, ""},
		{`<iframe src=x><a href=no></iframe>`, "x"},
		{`<noembed><a href=no></noembed><noframes><a href=no></noframes>`, ""},
		{`<noscript><img src=y><a href=x></noscript>`, "+y x"},
	}},
	{"base", []struct{ body, want string }{
		{`<base target=_top><base href=/e/><a href=x>`, "https://a.example/e/x"},
		{`<a href=x><base href=/e/>`, "https://a.example/e/x"},
		{`<base href=/e/f><a href=x>`, "https://a.example/e/x"},
		{`<base href="//b.example"><a href=x>`, "https://b.example/x"},
		{`<base href=""><a href=x>`, "x"},
		{`<base href="?q"><a href=""><a href=x>`, "page?q x"},
		{`<base href="javascript:y"><a href=x>`, "x"},
		{`<template><base href=/e/></template><a href=x>`, "x"},
		{`<body><p><base href=/e/><a href=x>`, "https://a.example/e/x"},
		{`<!-- <base href=/e/> --><a href=x>`, "x"},
	}},
	{"refresh", []struct{ body, want string }{
		{`<meta http-equiv=refresh content="0;url=x">`, "x"},
		{`<meta http-equiv=refresh content=" 5 ; URL = 'x' ">`, "x"},
		{`<meta http-equiv=refresh content="0,x">`, "x"},
		{`<meta http-equiv=refresh content="0 x">`, "x"},
		{`<meta http-equiv=refresh content="1.5; url=x">`, "x"},
		{`<meta http-equiv=refresh content='0;url="x"y'>`, "x"},
		{`<meta http-equiv=refresh content="0;url='x">`, "x"},
		{`<meta http-equiv=refresh content="0; urls">`, "urls"},
		{`<meta http-equiv=refresh content="0;">`, ""},
		{`<meta http-equiv=refresh content="-1;url=no">`, ""},
		{`<meta http-equiv=refresh content="url=no">`, ""},
		{`<meta http-equiv=refresh content="0url=no">`, ""},
		{`<meta http-equiv=refresh><meta name=refresh content="0;url=no">`, ""},
	}},
	{"link", []struct{ body, want string }{
		{`<link rel=canonical href=x>`, "x"},
		{`<link rel="next prev" href=x>`, "x"},
		{`<link rel=alternate type=application/rss+xml href=x>`, "x"},
		{`<link rel="nofollow next" href=x>`, "!x"},
		{`<link rel=stylesheet href=x><body><link rel=stylesheet href=y>`, "+x +y"},
		{`<link rel="shortcut icon" href=x>`, "+x"},
		{`<link rel=dns-prefetch href="//no.example"><link rel=pingback href=no>`, ""},
		{`<link rel="" href=no><link href=no rel><link rel=next>`, ""},
	}},
	{"images and media", []struct{ body, want string }{
		{`<picture><source srcset="x 1x"><img src=y></picture>`, "+x +y"},
		{`<img srcset="a, b 2x">`, "+a +b"},
		{`<img srcset="a,b">`, "+a,b"},
		{`<img srcset="a 1x,b 2x">`, "+a +b"},
		{`<img srcset="a,, b">`, "+a +b"},
		{`<img srcset=", a">`, "+a"},
		{`<img srcset="a 100w, b 200w (c, d), e">`, "+a +b +e"},
		{"<img srcset=\"\n a 1x,\n b 2x\n\">", "+a +b"},
		{`<img srcset="data:,x 1x, y">`, "+y"},
		{`<link rel=preload as=image imagesrcset="x 1x, y 2x" href=z>`, "+z +x +y"},
		{`<video poster=p src=v><track src=t></video><audio src=a></audio>`, "+v +p +t +a"},
		{`<embed src=e><object data=o></object><input type=IMAGE src=i>`, "+e +o +i"},
		{`<body background=b>`, "+b"},
	}},
	{"SVG and MathML", []struct{ body, want string }{
		{`<svg><a href=x></a></svg>`, "x"},
		{`<svg><a xlink:href=x></a></svg>`, "x"},
		{`<svg><foreignObject><a href=x></foreignObject></svg>`, "x"},
		{`<svg><script>"<a href=x>"</script></svg>`, "x"},
		{`<svg><title><a href=x></title></svg>`, "x"},
		{`<svg/><title><a href=no></title>`, ""},
		{`<math><mi><a href=x></mi></math>`, "x"},
	}},
	{"templates", []struct{ body, want string }{
		{`<template><a href=no><p><a href=no></template><a href=x>`, "x"},
		{`<template><script></template></script><a href=no></template><a href=x>`, "x"},
		{`<template><a href=no>`, ""},
		{`</template><a href=x>`, "x"},
		{`<template shadowrootmode=closed><a href=x></template>`, "x"},
	}},
	{"character references", []struct{ body, want string }{
		{`<a href="?a=1&amp;b=2">`, "page?a=1&b=2"},
		{`<a href="?a=1&b=2">`, "page?a=1&b=2"},
		{`<a href="&#x78;&#121;">`, "xy"},
		{`<a href="&#x2F;x">`, "https://a.example/x"},
		{`<a href="?&copy;">`, "page?%C2%A9"},
		{`<a href="?&copy=1">`, "page?&copy=1"},
		{`<a href="?&copyright">`, "page?&copyright"},
		{`<a href="?&lt">`, "page?%3C"},
		{`<a href="?&notin;&notit;">`, "page?%E2%88%89&notit;"},
		{`<a href="?&hearts;&nosuch;">`, "page?%E2%99%A5&nosuch;"},
		{`<a href="?&#128;">`, "page?%E2%82%AC"},
		{`<a href="?&#0;&#xD800;&#x110000;">`, "page?%EF%BF%BD%EF%BF%BD%EF%BF%BD"},
		{`<a href="?a&#;b">`, "page?a&"},
		{`<a href="&NotEqualTilde;">`, "%E2%89%82%CC%B8"},
		{`<a href="java&#115;cript:no"><a href="&#32;x">`, "x"},
	}},
	{"nofollow and repetition", []struct{ body, want string }{
		{`<a rel=nofollow href=x>`, "!x"},
		{`<a rel="a NOFOLLOW b" href=x>`, "!x"},
		{`<a rel=no-follow href=x><a rel=nofollowed href=y>`, "x y"},
		{`<a href=x><a rel=nofollow href=x>`, "x"},
		{`<a rel=nofollow href=x><a rel=nofollow href=./x>`, "!x"},
		{`<meta name=robots content=nofollow><a href=x>`, "!x"},
		{`<a href=y><a href=x><a href=y#f><a href=z/../y>`, "y x"},
	}},
}

func TestLinks(t *testing.T) {
	for _, g := range linkCases {
		for _, tc := range g.cases {
			if got := extractLinks(t, tc.body); got != tc.want {
				t.Errorf("%s: %q: %q, want %q", g.group, tc.body, got, tc.want)
			}
		}
	}
}

// TestLinkHeader follows RFC 8288, section 3 and appendix B.2.
func TestLinkHeader(t *testing.T) {
	for _, tc := range []struct {
		values []string
		want   string
	}{
		{[]string{`<x>; rel=next`}, "x"},
		{[]string{`<x>; rel="next"`}, "x"},
		{[]string{`<x>;rel=next,<y>;rel=prev`}, "x y"},
		{[]string{`<x>; rel=next`, `<y>; rel=prev`}, "x y"},
		{[]string{`<x> ; REL = "Next"`}, "x"},
		{[]string{`<x>; rel="start next"`}, "x"},
		{[]string{`<x>; rel=next; rel=stylesheet`}, "x"},
		{[]string{`<x>; title="a;b, <no>; rel=next"; rel=next`}, "x"},
		{[]string{`<x>; title="a\"; rel=no"; rel=next`}, "x"},
		{[]string{`<x>; title*=UTF-8''a%2Cb; rel=next`}, "x"},
		{[]string{`<x,y>; rel=next`}, "x,y"},
		{[]string{`<x>; rel=stylesheet`}, "+x"},
		{[]string{`<x>; rel="nofollow next"`}, "!x"},
		{[]string{`<>; rel=next`}, "page"},
		{[]string{`, ,<x>; rel=next,`}, "x"},
		{[]string{`<http://b.example/x>; rel=next`}, "http://b.example/x"},
		{[]string{`<x>`}, ""},
		{[]string{`<x>; rel`}, ""},
		{[]string{`<x>; rel=""`}, ""},
		{[]string{`<x>; rel=preconnect`}, ""},
		{[]string{`x; rel=next`}, ""},
		{[]string{`<x; rel=next`}, ""},
		{[]string{`<javascript:x>; rel=next`}, ""},
	} {
		var x Extractor
		var page Page
		if err := x.Document(&page, site+"page", http.Header{"Link": tc.values}, nil, Options{Requisites: true}); err != nil {
			t.Fatal(err)
		}
		if got := list(page); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.values, got, tc.want)
		}
	}
}
