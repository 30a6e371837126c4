package config

import (
	"reflect"
	"strconv"
	"strings"
)

// texts fills a list of texts; one value is a list of one, and commas in it
// separate, so that `brokers: ${BROKERS}` works. Expressions are not split.
func (l *loader) texts(s *setting, n *node, v reflect.Value, path string) {
	items := []*node{n}
	if n.kind == listNode {
		items = n.items
	} else if n.kind != scalarNode {
		l.wrongType(n, path, s.noun(), exampleOf(s))
		return
	}
	item := &setting{name: s.name, kind: kindText, expr: s.expr, enum: s.enum, pattern: s.pattern, secret: s.secret, example: s.example, required: true}
	var out []string
	for i, in := range items {
		at := path
		if n.kind == listNode {
			at = path + "[" + strconv.Itoa(i) + "]"
			l.nodes[at] = in
		}
		if in.kind == nullNode {
			l.fail(codeEmpty, in.pos, at, "has no value", "give it text, or remove the entry")
			continue
		}
		out = append(out, l.listItem(item, in, n.kind == scalarNode, at)...)
		if o, ok := l.origins[at]; ok && o.from == fromEnvironment {
			l.origins[path] = o
		}
	}
	if len(out) == 0 && s.required && len(items) == 0 {
		l.fail(codeRequired, n.pos, path, "is required and empty", exampleOf(s))
	}
	list := reflect.MakeSlice(s.typ, len(out), len(out))
	for i, t := range out {
		list.Index(i).SetString(t)
	}
	v.Set(list)
}

func (l *loader) listItem(item *setting, n *node, split bool, path string) []string {
	holder := reflect.New(reflect.TypeFor[string]()).Elem()
	if split && item.expr == "" {
		t, ok := l.text(item, n, path)
		parts := splitList(t.value)
		if !ok {
			return nil
		}
		if len(parts) == 0 {
			l.fail(codeRequired, n.pos, path, "is empty"+t.via(), exampleOf(item))
		}
		for _, p := range parts {
			l.vetText(item, n, text{value: p, vars: t.vars}, path)
		}
		return parts
	}
	before := len(l.errs)
	l.scalar(item, n, holder, path)
	if len(l.errs) > before {
		return nil
	}
	return []string{holder.String()}
}

func splitList(s string) []string {
	var out []string
	for p := range strings.SplitSeq(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// textMap fills a map of texts.
func (l *loader) textMap(s *setting, n *node, v reflect.Value, path string) {
	if n.kind != mapNode {
		l.wrongType(n, path, s.noun(), exampleOf(s))
		return
	}
	out := reflect.MakeMapWithSize(s.typ, len(n.pairs))
	for _, p := range n.pairs {
		at := join(path, p.name)
		l.note(at, p)
		if p.value.kind == nullNode {
			l.fail(codeEmpty, p.key, at, "has no value", "give it one, or remove the line")
			continue
		}
		item := &setting{name: s.name, kind: kindText, expr: s.expr, enum: s.enum, example: s.example}
		holder := reflect.New(s.typ.Elem()).Elem()
		l.scalarIn(item, p.value, holder, at)
		out.SetMapIndex(reflect.ValueOf(p.name).Convert(s.typ.Key()), holder)
	}
	v.Set(out)
}

// scalarIn is scalar for an entry of a map: its enum speaks of types.
func (l *loader) scalarIn(item *setting, n *node, v reflect.Value, path string) {
	if item.enum != nil {
		item.name = "type"
	}
	item.required = true
	l.scalar(item, n, v, path)
}

// assigns fills an ordered map of expressions.
func (l *loader) assigns(s *setting, n *node, v reflect.Value, path string) {
	if n.kind != mapNode {
		l.wrongType(n, path, "a mapping of fields to expressions", exampleOf(s))
		return
	}
	if len(n.pairs) == 0 {
		l.fail(codeStep, n.pos, path, "sets nothing", exampleOf(s))
	}
	item := &setting{name: s.name, kind: kindText, expr: s.expr, example: s.example}
	var out []Assign
	for _, p := range n.pairs {
		at := join(path, p.name)
		l.note(at, p)
		if p.value.kind == nullNode {
			l.fail(codeEmpty, p.key, at, "has no value", "give it an expression; to remove the field, use unset")
			continue
		}
		l.origins[at] = origin{from: fromFile, line: p.value.pos.line}
		var text string
		l.scalar(item, p.value, reflect.ValueOf(&text).Elem(), at)
		out = append(out, Assign{Field: p.name, Expr: text})
	}
	v.Set(reflect.ValueOf(out))
}

// sinks fills the sinks in the order of the file.
func (l *loader) sinks(n *node, v reflect.Value, path string) {
	if n.kind != mapNode {
		l.wrongType(n, path, "a mapping of names to sinks", "write `sinks:` and below it `  name: { kafka: { topic: … } }`")
		return
	}
	var out []Sink
	for _, p := range n.pairs {
		at := join(path, p.name)
		l.note(at, p)
		s := Sink{Name: p.name, Line: p.key.line, Column: p.key.col}
		if !sinkName.MatchString(p.name) {
			l.fail(codeName, p.key, at, "the sink's name "+quote(p.name)+" is not allowed",
				"lower-case letters, digits, - and _, at most 63, beginning with a letter or digit")
		}
		if l.sink(&s, p, at) {
			out = append(out, s)
		}
	}
	v.Set(reflect.ValueOf(out))
}

// sinkWhere describes the one setting that all kinds share.
func sinkWhere() *setting {
	return &setting{name: "where", kind: kindText, expr: "bool", example: "amount_cents > 0", doc: "Only records for which it is true go to this sink."}
}

func (l *loader) sink(s *Sink, p pair, path string) bool {
	names := l.kinds.names()
	if p.value.kind != mapNode {
		l.wrongType(p.value, path, "a mapping with one of "+strings.Join(names, ", "), "")
		return false
	}
	var kinds []pair
	before := len(l.errs)
	for _, q := range p.value.pairs {
		at := join(path, q.name)
		l.note(at, q)
		switch {
		case q.name == "where" && q.value.kind == nullNode:
			l.fail(codeEmpty, q.key, at, "has no value", "give it an expression, or remove the line")
		case q.name == "where":
			l.origins[at] = origin{from: fromFile, line: q.value.pos.line}
			l.scalar(sinkWhere(), q.value, reflect.ValueOf(&s.Where).Elem(), at)
		case l.blocks[q.name] != nil:
			kinds = append(kinds, q)
		default:
			l.unknownKind(q, at, names)
		}
	}
	switch {
	case len(kinds) == 1:
		l.sinkSettings(s, kinds[0], path)
		return true
	case len(kinds) > 1:
		l.fail(codeSink, kinds[1].key, path, "the sink is both "+kinds[0].name+" and "+kinds[1].name, "give each its own name under sinks")
	case len(l.errs) == before:
		l.fail(codeSink, p.key, path, "the sink has no kind", "add one of "+strings.Join(names, ", "))
	}
	return false
}

func (l *loader) unknownKind(q pair, path string, names []string) {
	for _, kind := range names {
		if l.blocks[kind].find(q.name) != nil && nearest(q.name, names) == "" {
			l.fail(codeUnknown, q.key, path, "there is no such kind of sink",
				q.name+" is a setting of "+kind+" sinks: write it inside "+kind+": { … }")
			return
		}
	}
	l.fail(codeUnknown, q.key, path, "there is no such kind of sink", meant(q.name, names, "kinds:"))
}

func (l *loader) sinkSettings(s *Sink, q pair, path string) {
	s.Kind = q.name
	b := l.blocks[q.name]
	c := reflect.New(b.typ)
	s.Settings = c.Interface()
	at := join(path, q.name)
	if q.value.kind == nullNode {
		q.value = &node{kind: mapNode, pos: q.key}
	}
	l.block(b, q.value, c.Elem(), at, q.key)
}
