package extract

import (
	"iter"
	"net/http"
	"strings"
)

// element is an element that is relevant to links, or to parsing markup.
type element uint8

const (
	elNone element = iota
	elA
	elArea
	elLink
	elBase
	elMeta
	elIframe
	elFrame
	elFrameset
	elScript
	elStyle
	elTitle
	elTextarea
	elXMP
	elNoembed
	elNoframes
	elPlaintext
	elTemplate
	elSVG
	elMath
	// The following elements are relevant only for requisites, within SVG and MathML, and before a
	// frameset is excluded.
	elImg
	elSource
	elVideo
	elAudio
	elTrack
	elEmbed
	elObject
	elInput
	elBody
	elFont
	elForeignObject // and desc
	elMathText      // mi, mo, mn, ms, mtext
	elAnnotationXML
	elBlock // ends SVG and MathML
	elSolid // excludes a frameset
	elSolidBlock
	elCount

	elRequisites = elImg
)

// Properties of elements for the tree builder.
const (
	breakout    = 1 << iota // its tags close SVG and MathML
	notFrameset             // a frameset after it is ignored
	pointSVG                // within SVG its content is HTML
	pointMath               // within MathML its content is HTML
)

var flags = [elCount]uint8{
	elA: 0, elArea: notFrameset, elIframe: notFrameset, elTextarea: notFrameset, elXMP: notFrameset, elMeta: breakout, elTitle: pointSVG,
	elImg: breakout | notFrameset, elEmbed: breakout | notFrameset, elObject: notFrameset, elInput: notFrameset,
	elBody: breakout | notFrameset, elForeignObject: pointSVG, elMathText: pointMath,
	elBlock: breakout, elSolid: notFrameset, elSolidBlock: breakout | notFrameset,
}

var elements = map[string]element{
	"a": elA, "area": elArea, "link": elLink, "base": elBase, "meta": elMeta, "iframe": elIframe, "frame": elFrame, "frameset": elFrameset,
	"script": elScript, "style": elStyle, "title": elTitle, "textarea": elTextarea, "xmp": elXMP, "noembed": elNoembed,
	"noframes": elNoframes, "plaintext": elPlaintext, "template": elTemplate, "svg": elSVG, "math": elMath,

	"img": elImg, "image": elImg, "source": elSource, "video": elVideo, "audio": elAudio, "track": elTrack, "embed": elEmbed,
	"object": elObject, "input": elInput, "body": elBody, "font": elFont,

	"foreignobject": elForeignObject, "desc": elForeignObject, "annotation-xml": elAnnotationXML,
	"mi": elMathText, "mo": elMathText, "mn": elMathText, "ms": elMathText, "mtext": elMathText,

	"b": elBlock, "big": elBlock, "blockquote": elBlock, "center": elBlock, "code": elBlock, "div": elBlock, "dl": elBlock, "em": elBlock,
	"h1": elBlock, "h2": elBlock, "h3": elBlock, "h4": elBlock, "h5": elBlock, "h6": elBlock, "head": elBlock, "i": elBlock,
	"menu": elBlock, "nobr": elBlock, "ol": elBlock, "p": elBlock, "ruby": elBlock, "s": elBlock, "small": elBlock, "span": elBlock,
	"strong": elBlock, "strike": elBlock, "sub": elBlock, "sup": elBlock, "tt": elBlock, "u": elBlock, "ul": elBlock, "var": elBlock,

	"button": elSolid, "applet": elSolid, "marquee": elSolid, "keygen": elSolid, "wbr": elSolid, "select": elSolid,

	"br": elSolidBlock, "dd": elSolidBlock, "dt": elSolidBlock, "hr": elSolidBlock, "li": elSolidBlock, "listing": elSolidBlock,
	"pre": elSolidBlock, "table": elSolidBlock,
}

// initials has, for each length of a name, the first letters of the relevant elements in ordinary
// HTML: most tags are excluded by it.
var initials = func() (t [maxName]uint32) {
	for name, el := range elements {
		if el < elFont {
			t[len(name)] |= 1 << (name[0] - 'a')
		}
	}
	return t
}()

// interesting reports whether a lower-case name may be that of a relevant element in ordinary HTML.
func interesting(name []byte) bool {
	return len(name) < maxName && initials[len(name)]&(1<<(name[0]-'a')) != 0
}

// attr is a relevant attribute.
type attr uint8

const (
	attrNone attr = iota
	attrHref
	attrSrc
	attrRel
	attrName
	attrContent
	attrCharset
	attrHTTPEquiv
	attrSrcset
	attrImageSrcset
	attrPoster
	attrData
	attrType
	attrBackground
	attrXlinkHref
	attrEncoding
	attrShadowRootMode
	attrColor
	attrFace
	attrSize
	attrStyle
	attrCount
)

// attribute returns the attribute with a lower-case name.
func attribute(name []byte) attr {
	switch string(name) {
	case "href":
		return attrHref
	case "src":
		return attrSrc
	case "rel":
		return attrRel
	case "name":
		return attrName
	case "content":
		return attrContent
	case "charset":
		return attrCharset
	case "http-equiv":
		return attrHTTPEquiv
	case "srcset":
		return attrSrcset
	case "imagesrcset":
		return attrImageSrcset
	case "poster":
		return attrPoster
	case "data":
		return attrData
	case "type":
		return attrType
	case "background":
		return attrBackground
	case "xlink:href":
		return attrXlinkHref
	case "encoding":
		return attrEncoding
	case "shadowrootmode":
		return attrShadowRootMode
	case "color":
		return attrColor
	case "face":
		return attrFace
	case "size":
		return attrSize
	case "style":
		return attrStyle
	default:
		return attrNone
	}
}

// IsHTML reports whether a body is HTML or XHTML. The header decides; if it is missing or empty,
// the first bytes do, by the patterns of the MIME Sniffing standard. Any other declared type is
// never extracted.
func IsHTML(contentType string, body []byte) bool {
	switch MediaType(contentType) {
	case "text/html", "application/xhtml+xml":
		return true
	case "", "*/*", "unknown/unknown", "application/unknown":
		return strings.HasPrefix(http.DetectContentType(body), "text/html")
	default:
		return false
	}
}

// ContentType returns the effective type of an answer's Content-Type headers (Fetch standard,
// "extract a MIME type"), with its charset if there is one. Some servers and proxies send the
// header twice, or join two in one: the last valid type counts, with the charset of an earlier one
// if that is the same type.
func ContentType(header http.Header) string {
	values := header["Content-Type"]
	if len(values) == 1 && strings.IndexByte(values[0], ',') < 0 {
		return values[0]
	}
	essence, charset := "", ""
	for _, value := range values {
		for part := range unquoted(value) {
			kind := MediaType(part)
			if major, minor, ok := strings.Cut(kind, "/"); !ok || major == "" || minor == "" || kind == "*/*" {
				continue
			}
			own := headerCharset(part)
			if own != "" || kind != essence {
				charset = own
			}
			essence = kind
		}
	}
	if charset != "" {
		return essence + "; charset=" + charset
	}
	return essence
}

// unquoted iterates over the parts separated by commas outside of quotes.
func unquoted(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		quoted, begin := false, 0
		for i := 0; i < len(s); i++ {
			switch {
			case s[i] == '"':
				quoted = !quoted
			case s[i] == '\\' && quoted:
				i++
			case s[i] == ',' && !quoted:
				if !yield(s[begin:i]) {
					return
				}
				begin = i + 1
			}
		}
		yield(s[begin:])
	}
}

func isXHTML(contentType string) bool { return MediaType(contentType) == "application/xhtml+xml" }

// MediaType returns the type without its parameters, in lower case. A space ends it too, as in
// browsers: some servers omit the semicolon.
func MediaType(contentType string) string {
	essence := strings.TrimLeft(contentType, " \t")
	if i := strings.IndexAny(essence, "; \t"); i >= 0 {
		essence = essence[:i]
	}
	return strings.ToLower(strings.TrimSpace(essence))
}
