package console

import (
	"html"
	"html/template"
	"regexp"
	"strings"
)

// The runbook is written in the little Markdown that its own pages need:
// headings, paragraphs, lists, tables, fenced code, code, bold and links.
var (
	mdCode = regexp.MustCompile("`([^`]+)`")
	mdBold = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	mdEm   = regexp.MustCompile(`\*([^*\s][^*]*)\*`)
	mdLink = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
	mdSlug = regexp.MustCompile(`[^a-z0-9 -]`)
)

// slug is the anchor of a heading, as GitHub makes it.
func slug(heading string) string {
	return strings.ReplaceAll(mdSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// inline turns one line into markup. Everything is escaped first; links lead to
// headings of this page only, others stay words.
func inline(text string) string {
	var codes []string
	text = mdCode.ReplaceAllStringFunc(text, func(m string) string {
		codes = append(codes, "<code>"+html.EscapeString(m[1:len(m)-1])+"</code>")
		return "\x00"
	})
	text = html.EscapeString(text)
	text = mdBold.ReplaceAllString(text, "<b>$1</b>")
	text = mdEm.ReplaceAllString(text, "<em>$1</em>")
	text = mdLink.ReplaceAllStringFunc(text, func(m string) string {
		p := mdLink.FindStringSubmatch(m)
		if strings.HasPrefix(p[2], "#") {
			return `<a href="` + p[2] + `">` + p[1] + `</a>`
		}
		return p[1]
	})
	for _, c := range codes {
		text = strings.Replace(text, "\x00", c, 1)
	}
	return text
}

// markdown draws a document of ours. O(its size).
func markdown(text string) template.HTML {
	var out, para strings.Builder
	end := ""
	flush := func() {
		if para.Len() > 0 {
			out.WriteString("<p>" + inline(strings.TrimSpace(para.String())) + "</p>\n")
			para.Reset()
		}
	}
	within := func(open, closing string) {
		if end != closing {
			out.WriteString(end)
			out.WriteString(open)
			end = closing
		}
	}
	code, rows := false, 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimSpace(line)
		if code {
			if code = !strings.HasPrefix(bare, "```"); code {
				out.WriteString(html.EscapeString(line) + "\n")
			} else {
				out.WriteString("</pre>\n")
			}
			continue
		}
		level := len(bare) - len(strings.TrimLeft(bare, "#"))
		item, isItem := strings.CutPrefix(bare, "* ")
		if !isItem {
			item, isItem = strings.CutPrefix(bare, "- ")
		}
		if !strings.HasPrefix(bare, "|") {
			rows = 0
		}
		switch {
		case strings.HasPrefix(bare, "```"):
			flush()
			within("", "")
			out.WriteString(`<pre tabindex="0">`)
			code = true
		case level > 0 && level < 5 && strings.HasPrefix(bare[level:], " "):
			flush()
			within("", "")
			name, tag := bare[level+1:], "h"+string(rune('0'+level))
			out.WriteString("<" + tag + ` id="` + slug(name) + `">` + inline(name) + "</" + tag + ">\n")
		case strings.HasPrefix(bare, "|"):
			flush()
			within(`<div class="scroll" tabindex="0"><table>`, "</table></div>\n")
			if rows++; rows == 2 && strings.Trim(bare, "|-: ") == "" {
				continue
			}
			cell := "td"
			if rows == 1 {
				cell = "th"
			}
			out.WriteString("<tr>")
			for c := range strings.SplitSeq(strings.Trim(bare, "|"), "|") {
				out.WriteString("<" + cell + ">" + inline(strings.TrimSpace(c)) + "</" + cell + ">")
			}
			out.WriteString("</tr>\n")
		case isItem:
			flush()
			within("<ul>", "</ul>\n")
			out.WriteString("<li>" + inline(item) + "</li>\n")
		case bare == "":
			flush()
			within("", "")
		default:
			within("", "")
			para.WriteString(bare + " ")
		}
	}
	flush()
	out.WriteString(end)
	return template.HTML(out.String()) //nolint:gosec // every word of it was escaped by inline
}
