package config

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// loader fills a File from a tree. It goes on after an error, so that all
// errors of a file are seen at once.
type loader struct {
	tree
	kinds  Kinds
	blocks map[string]*block
	env    Env

	errs     Errors
	warnings Errors
	origins  map[string]origin // where each effective value came from, by path
	exprs    []expression      // to be compiled, in the order of the file
}

// expression is the text of an expression and where it stands.
type expression struct {
	path string
	want string // as in the tag expr
	text text
	node *node
}

func (l *loader) fail(code string, p pos, path, cause, remedy string) {
	l.errs = append(l.errs, l.src.fault(code, p, path, cause, remedy))
}

func (l *loader) warn(code string, p pos, path, cause, remedy string) {
	l.warnings = append(l.warnings, l.src.fault(code, p, path, cause, remedy))
}

// tree is what a file gives.
type tree struct {
	src   *source
	nodes map[string]*node // by path
	keys  map[string]pos   // where the name of each stands
}

func (l tree) note(path string, p pair) {
	l.nodes[path], l.keys[path] = p.value, p.key
}

// at gives the place of a setting, or of the nearest block around it that the
// file gives.
func (l tree) at(path string) pos {
	for path != "" {
		if n := l.nodes[path]; n != nil {
			if key, ok := l.keys[path]; ok && n.kind == mapNode {
				return key
			}
			return n.pos
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return pos{line: 1, col: 1, width: 1}
}

// given reports whether the file itself sets path.
func (l tree) given(path string) bool { return l.nodes[path] != nil }

func (l *loader) root(b *block, tree *node, f *File) {
	kept := *tree
	kept.pairs = nil
	for _, p := range tree.pairs {
		if !strings.HasPrefix(p.name, "x-") { // a place for anchors
			kept.pairs = append(kept.pairs, p)
		}
	}
	l.hide(b, tree, map[*node]bool{})
	l.block(b, &kept, reflect.ValueOf(f).Elem(), "", pos{line: 1, col: 1, width: 1})
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// block fills the struct v from n, which may be nil: then every setting has its
// default. key is where the block is named, for what is missing in it.
func (l *loader) block(b *block, n *node, v reflect.Value, path string, key pos) {
	if n != nil && n.kind != mapNode {
		l.wrongType(n, path, "a mapping", "settings here: "+strings.Join(b.names(), ", "))
		return
	}
	misspelt := map[string]bool{}
	if n != nil {
		for _, p := range n.pairs {
			s := b.find(p.name)
			if s == nil {
				l.unknown(b, p, path)
				misspelt[nearest(p.name, b.names())] = true
				continue
			}
			l.note(join(path, p.name), p)
			l.setting(s, p.value, v.Field(s.index), join(path, p.name), p.key)
		}
	}
	for _, s := range b.settings {
		if n.get(s.name) == nil && !misspelt[s.name] {
			l.absent(s, v.Field(s.index), join(path, s.name), key)
		}
	}
	l.exclusiveSecrets(b, n, path)
}

func (l *loader) absent(s *setting, v reflect.Value, path string, key pos) {
	switch {
	case s.kind == kindBlock:
		l.block(s.block, nil, v, path, key)
	case s.required:
		remedy := ""
		if s.example != "" {
			remedy = "add it, for example " + s.name + ": " + s.example
		}
		l.fail(codeRequired, key, path, "is required and missing", remedy)
	case s.hasDef:
		l.setDefault(s, v, path)
	default:
		l.origins[path] = origin{from: fromDefault, why: cmp.Or(s.why, notSet)}
	}
}

func (l *loader) setDefault(s *setting, v reflect.Value, path string) {
	l.origins[path] = origin{from: fromDefault, why: s.why}
	if s.kind == kindTexts {
		if s.def != "" {
			v.Set(reflect.ValueOf(splitList(s.def)).Convert(v.Type()))
		}
		return
	}
	if cause := s.store(v, s.def); cause != "" {
		l.fail(codeType, pos{}, path, "its default "+strconv.Quote(s.def)+": "+cause, "this is a mistake in exactly, not in the file")
		return
	}
	if s.expr != "" && s.def != "" {
		l.exprs = append(l.exprs, expression{path: path, want: s.expr, text: text{value: s.def}})
	}
}

// setting fills v from n by the kind of s.
func (l *loader) setting(s *setting, n *node, v reflect.Value, path string, key pos) {
	if n.kind == nullNode {
		remedy := "give it " + s.noun() + ", or remove the line"
		l.fail(codeEmpty, key, path, "has no value", remedy)
		return
	}
	l.origins[path] = origin{from: fromFile, line: n.pos.line}
	switch s.kind {
	case kindBlock:
		l.block(s.block, n, v, path, key)
	case kindOptional:
		v.Set(reflect.New(s.typ.Elem()))
		l.block(s.block, n, v.Elem(), path, key)
	case kindBlocks:
		l.list(s, n, v, path)
	case kindTexts:
		l.texts(s, n, v, path)
	case kindTextMap:
		l.textMap(s, n, v, path)
	case kindAssigns:
		l.assigns(s, n, v, path)
	case kindSinks:
		l.sinks(n, v, path)
	default:
		l.scalar(s, n, v, path)
	}
}

// list fills a list of structs.
func (l *loader) list(s *setting, n *node, v reflect.Value, path string) {
	if n.kind != listNode {
		l.wrongType(n, path, "a list", "begin each entry with -")
		return
	}
	out := reflect.MakeSlice(s.typ, len(n.items), len(n.items))
	for i, item := range n.items {
		at := path + "[" + strconv.Itoa(i) + "]"
		l.nodes[at] = item
		if s.oneOf && !l.exactlyOne(s.block, item, at) {
			continue
		}
		l.block(s.block, item, out.Index(i), at, item.pos)
	}
	v.Set(out)
}

// exactlyOne checks an entry of which each setting excludes the others.
func (l *loader) exactlyOne(b *block, n *node, path string) bool {
	choice := orList(b.names())
	switch {
	case n.kind != mapNode:
		l.wrongType(n, path, "a mapping", "write one of "+choice+", as in `- where: amount > 0`")
	case len(n.pairs) == 0:
		l.fail(codeStep, n.pos, path, "says nothing to do", "write one of "+choice)
	case len(n.pairs) > 1 && b.find(n.pairs[0].name) != nil && b.find(n.pairs[1].name) != nil:
		l.fail(codeStep, n.pairs[1].key, path, "has both "+n.pairs[0].name+" and "+n.pairs[1].name,
			"each step does one thing: begin a new entry with -")
	default:
		return true
	}
	return false
}

func (l *loader) unknown(b *block, p pair, path string) {
	cause := "there is no such setting"
	if path == "" {
		l.fail(codeUnknown, p.key, p.name, cause, meant(p.name, b.names(), "settings:"))
		return
	}
	if kind, ok := l.sinkKindAt(path); ok && kind == "kafka" && contains([]string{"brokers", "cluster", "tls", "sasl"}, p.name) {
		l.fail(codeCluster, p.key, join(path, p.name), "a Kafka sink on another cluster than the source is not possible for now",
			"remove it: the sink writes to kafka.brokers, inside the transaction that holds the source offsets")
		return
	}
	remedy := meant(p.name, b.names(), "settings of "+path+":")
	if nearest(p.name, b.names()) == "" {
		if where := l.elsewhere(p.name, path); where != "" {
			remedy = "did you mean " + where + "? " + remedy
		}
	}
	l.fail(codeUnknown, p.key, join(path, p.name), cause, remedy)
}

// elsewhere finds a setting of that name at the top, for one that is indented
// too deep.
func (l *loader) elsewhere(name, path string) string {
	root, err := describe(reflect.TypeFor[File]())
	if err != nil || root.find(name) == nil || path == "" {
		return ""
	}
	return name + " at the left margin"
}

func (l *loader) sinkKindAt(path string) (string, bool) {
	parts := strings.Split(path, ".")
	if len(parts) == 3 && parts[0] == "sinks" {
		return parts[2], true
	}
	return "", false
}

func (l *loader) wrongType(n *node, path, want, remedy string) {
	is := n.kind.String()
	if n.kind == scalarNode {
		is = "the value " + quote(n.text)
	}
	p := n.pos
	if n.kind != scalarNode {
		p.width = 1
	}
	l.fail(codeType, p, path, "needs "+want+", and this is "+is, remedy)
}

// quote quotes text for a message, shortened.
func quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:57]) + "…"
	}
	return strconv.Quote(s)
}
