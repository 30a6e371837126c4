package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference gives the reference page of pipeline files with these sinks, as
// Markdown, always the same.
func Reference(kinds Kinds) ([]byte, error) {
	blocks, err := kinds.describe()
	if err != nil {
		return nil, err
	}
	root, err := describe(reflect.TypeFor[File]())
	if err != nil {
		return nil, err
	}
	r := &reference{}
	r.text(referenceHead)
	r.section("Top level", "", root)
	for _, s := range root.settings {
		if s.block != nil {
			r.section("`"+s.name+"`", s.doc, s.block)
		}
	}
	r.text(referenceSinks)
	for _, name := range kinds.names() {
		r.section("`sinks.NAME."+name+"`", "", blocks[name])
	}
	r.text(referenceCodes)
	for _, c := range Codes() {
		r.text(fmt.Sprintf("- `%s`: %s.\n", c.Code, c.Title))
	}
	return []byte(r.b.String()), nil
}

const referenceHead = `# The pipeline file

<!-- Generated from the descriptions in the code: do not edit. ` + "`go test ./internal/cli -run Reference -update`" + ` writes it anew. -->

A pipeline file is one YAML mapping. It is read strictly: an unknown or repeated name, a wrong type or a missing value is an error with line, column and remedy. ` + "`exactly init`" + ` writes a commented file to begin with, ` + "`exactly validate FILE --explain`" + ` prints every effective value and why it is what it is, and [pipeline.schema.json](pipeline.schema.json) is its JSON Schema: put ` + "`# yaml-language-server: $schema=…`" + ` into the first line and editors complete and check it.

- **Time spans**: a number and a unit (ns, us, ms, s, m, h, d, w), also combined: ` + "`100ms`, `1h30m`, `7d`" + `.
- **Sizes**: a number and KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024); without a unit bytes.
- **Lists of text**: one value is a list of one, and commas in it separate.
- **Variables**, in any value: ` + "`${NAME}`, `${NAME:-default}`, `${file:/path}`" + ` (text of a file without the line end); ` + "`$${`" + ` is a literal ` + "`${`" + `.
- **Secrets**: from a variable, or from a file named by the setting that ends in ` + "`_file`" + `; files are read again when they change.
- **Expressions** are [CEL](https://cel.dev): they see the fields of the record, ` + "`key`, `headers`, `source`" + ` (topic, partition, offset, timestamp) and ` + "`epoch`" + ` (number, attempt, time), and are compiled when the file is read.
- Names at the top level that begin with ` + "`x-`" + ` are left alone: a place for YAML anchors.

`

const referenceSinks = `## ` + "`sinks`" + `

Each entry has a name of your choice (lower-case letters, digits, - and _, at most 63), exactly one kind with its settings, and optionally ` + "`where`" + `, an expression (bool): only records for which it is true go to this sink. The name is part of every mark that the sink keeps: renaming a sink is removing one and adding another.

`

const referenceCodes = `## Errors

` + "`exactly explain CODE`" + ` prints the longer text.

`

type reference struct{ b strings.Builder }

func (r *reference) text(s string) { r.b.WriteString(s) }

func (r *reference) section(title, doc string, b *block) {
	r.text("## " + title + "\n\n")
	if doc != "" {
		r.text(doc + "\n\n")
	}
	r.text("| setting | type | default | |\n| --- | --- | --- | --- |\n")
	r.rows(b, "")
	r.text("\n")
}

func (r *reference) rows(b *block, path string) {
	for _, s := range b.settings {
		name := join(path, s.name)
		fmt.Fprintf(&r.b, "| `%s` | %s | %s | %s |\n", name, typeText(s), defaultText(s), cell(docText(s)))
		if path != "" || b.typ != reflect.TypeFor[File]() {
			if s.kind == kindBlock || s.kind == kindOptional {
				r.rows(s.block, name)
			} else if s.kind == kindBlocks {
				r.rows(s.block, name+"[]")
			}
		}
	}
}

func typeText(s *setting) string {
	switch {
	case s.enum != nil && s.kind == kindTextMap:
		return "map of names to " + cell(strings.Join(s.enum, ", "))
	case s.enum != nil:
		return cell("`" + strings.Join(s.enum, "`, `") + "`")
	case s.expr != "" && s.kind == kindTexts:
		return "list of expressions (" + s.expr + ")"
	case s.expr != "" && s.kind != kindText:
		return "map of names to expressions (" + s.expr + ")"
	case s.expr != "":
		return "expression (" + s.expr + ")"
	case s.secret && s.kind == kindTextMap:
		return "map of names to secrets"
	case s.secret:
		return "secret"
	}
	return [...]string{
		kindText: "text", kindBool: "true or false", kindInt: "whole number", kindFloat: "number",
		kindDuration: "time span", kindSize: "size", kindTexts: "list of texts", kindTextMap: "map of texts",
		kindBlock: "mapping", kindOptional: "mapping", kindBlocks: "list of mappings", kindSinks: "mapping",
		kindAssigns: "mapping",
	}[s.kind]
}

func defaultText(s *setting) string {
	switch {
	case s.required:
		return "**required**"
	case s.hasDef && s.def != "":
		return cell("`" + s.def + "`")
	case s.kind == kindBool:
		return "`false`"
	}
	return ""
}

func docText(s *setting) string {
	doc := s.doc
	switch {
	case s.min != "" && s.max != "":
		doc += " From " + s.min + " to " + s.max + "."
	case s.min != "" && s.min != "0":
		doc += " At least " + s.min + "."
	case s.max != "":
		doc += " At most " + s.max + "."
	}
	if s.hasDef && s.why != "" {
		doc += " Why this default: " + s.why + "."
	}
	if s.example != "" {
		doc += " Example: `" + s.example + "`."
	}
	return doc
}

func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(s)
}
