package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file: far above any real one, far below what makes the YAML
// parser slow or its stack deep.
const (
	maxFile  = 64 << 10 // bytes
	maxDepth = 64
	maxMerge = 1000 // pairs that merge keys may add in one mapping
)

// parseYAML gives the tree of the one document in text, which must be a mapping.
func parseYAML(src *source, text string) (*node, *Error) {
	if e := checkText(src, text); e != nil {
		return nil, e
	}
	tokens := lexer.Tokenize(text)
	if e := checkDepth(src, tokens); e != nil {
		return nil, e
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxFault(src, err)
	}
	var body ast.Node
	for i, d := range file.Docs {
		if i > 0 && d.Body != nil {
			return nil, src.fault(codeShape, pos{line: tokenPos(d.Body.GetToken()).line, col: 1}, "",
				"the file holds several documents", "keep one pipeline per file: cut the file at the line with ---")
		}
		if i == 0 {
			body = d.Body
		}
	}
	if body == nil {
		return nil, src.fault(codeShape, pos{}, "", "the file is empty",
			"begin with `exactly init`, which writes a commented pipeline file")
	}
	c := converter{src: src, anchors: map[string]*node{}}
	n, e := c.node(body, 0)
	if e != nil {
		return nil, e
	}
	if n.kind != mapNode {
		return nil, src.fault(codeShape, n.pos, "", "the file is "+n.kind.String()+", not a mapping",
			"a pipeline file begins with settings such as `pipeline: payments`")
	}
	return n, nil
}

func checkText(src *source, text string) *Error {
	if len(text) > maxFile {
		return src.fault(codeShape, pos{}, "", fmt.Sprintf("the file has %s", formatSize(int64(len(text)))),
			"a pipeline file has at most "+formatSize(maxFile)+"; is this the right file?")
	}
	if !utf8.ValidString(text) {
		line := 1 + strings.Count(text[:invalidAt(text)], "\n")
		return src.fault(codeEncoding, pos{line: line, col: 1}, "", "the file is not UTF-8",
			"save it as UTF-8 text; is this the right file?")
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return src.fault(codeEncoding, pos{line: 1 + strings.Count(text[:i], "\n"), col: 1}, "",
			"the file holds a zero byte", "save it as UTF-8 text; is this the right file?")
	}
	return nil
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// checkDepth bounds the nesting before the parser recurses into it.
func checkDepth(src *source, tokens token.Tokens) *Error {
	flow, run, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Line != line {
				run, line = 0, t.Position.Line
			}
			run++
		}
		if flow > maxDepth || run > maxDepth || t.Position.IndentNum > 16*maxDepth {
			return src.fault(codeSyntax, tokenPos(t), "", "the nesting is too deep", "a pipeline file is at most "+strconv.Itoa(maxDepth)+" levels deep")
		}
	}
	return nil
}

func tokenPos(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{}
	}
	width := 1
	if !strings.ContainsAny(t.Value, "\n") {
		width = utf8.RuneCountInString(strings.TrimSpace(t.Origin))
	}
	return pos{line: max(t.Position.Line, 1), col: max(t.Position.Column, 1), width: width}
}

func syntaxFault(src *source, err error) *Error {
	var se *yaml.SyntaxError
	if !errors.As(err, &se) || se.GetToken() == nil {
		return src.fault(codeSyntax, pos{}, "", "not YAML: "+err.Error(), "")
	}
	message := se.GetMessage()
	p := tokenPos(se.GetToken())
	p.width = 1
	if strings.Contains(message, "found character '\t'") {
		return src.fault(codeTab, p, "", "a tab is used for indentation", "YAML allows spaces only: use two spaces per level")
	}
	return src.fault(codeSyntax, p, "", "not YAML: "+message, syntaxRemedy(message))
}

func syntaxRemedy(message string) string {
	switch {
	case strings.Contains(message, "mapping value is not allowed"):
		return `a value that holds ": " must be quoted, or the line is indented too deep`
	case strings.Contains(message, "value is not allowed in this context"):
		return "check the indentation: settings of one level begin in one column"
	case strings.Contains(message, "end token"), strings.Contains(message, "end character"),
		strings.Contains(message, "must be specified"):
		return "something that was opened here or before is never closed"
	case strings.Contains(message, "reserved character"):
		return "quote the value"
	}
	return ""
}
