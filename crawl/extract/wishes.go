package extract

import (
	"regexp"
	"strings"
)

// robotsTag applies one X-Robots-Tag: directives for all, or after "name:" for the crawler of that
// name.
func (p *Page) robotsTag(value, agent string) { p.robots(value, agent, false) }

// directives applies a list of robots directives in a meta element, whatever names it contains.
func (p *Page) directives(list string) { p.robots(list, "", true) }

// robotsWord is a word of a list of directives with the colon (or equals sign) that follows a name
// or a directive with a value, and the digits behind that. Words are separated by commas,
// semicolons, white space and other characters.
var robotsWord = regexp.MustCompile(`([\w*./+-]+)(?:(\s*[:=])(\d*))?`)

// robots applies a list of robots directives; most directives have no effect.
func (p *Page) robots(list, agent string, all bool) {
	mine, value := true, false
	for _, match := range robotsWord.FindAllStringSubmatch(list, -1) {
		word, colon, digits := strings.ToLower(match[1]), match[2] != "", match[3]
		switch {
		case value: // may be the name of a directive: max-image-preview: none
			value = false
		case colon && strings.HasPrefix(word, "max-"):
			value = digits == ""
		case word == "none" || word == "noindex" || word == "nofollow":
			p.NoIndex = p.NoIndex || mine && word != "nofollow"
			p.NoFollow = p.NoFollow || mine && word != "noindex"
		case word == "unavailable_after": // a date follows, whose words are not directives
		case colon && digits == "" && strings.Trim(word, "0123456789.-+/") != "": // not of a time
			mine = all || isName(word, agent)
		}
	}
}

// isName reports whether the name before directives is that of this crawler: with a version after a
// slash or without.
func isName(word, agent string) bool {
	name, _, _ := strings.Cut(word, "/")
	return name == "*" || name == "robots" || agent != "" && strings.EqualFold(name, agent)
}
