package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

type nodeKind int

const (
	scalarNode nodeKind = iota
	nullNode
	listNode
	mapNode
)

func (k nodeKind) String() string {
	return [...]string{"a value", "nothing", "a list", "a mapping"}[k]
}

// node is a piece of YAML with its place; aliases are resolved, merge keys
// applied.
type node struct {
	kind   nodeKind
	pos    pos
	text   string // of a scalar, unquoted
	quoted bool   // the scalar was quoted or a block
	block  bool   // the scalar was a block (| or >)
	items  []*node
	pairs  []pair
}

type pair struct {
	name  string
	key   pos
	value *node
}

// converter turns the YAML library's tree into ours.
type converter struct {
	src     *source
	anchors map[string]*node
}

func (c *converter) node(n ast.Node, depth int) (*node, *Error) {
	if depth > maxDepth {
		return nil, c.src.fault(codeSyntax, tokenPos(n.GetToken()), "", "the nesting is too deep", "")
	}
	switch n := n.(type) {
	case nil:
		return &node{kind: nullNode}, nil
	case *ast.MappingNode:
		return c.mapping(n, depth)
	case *ast.MappingValueNode:
		return c.mapping(&ast.MappingNode{Values: []*ast.MappingValueNode{n}}, depth)
	case *ast.SequenceNode:
		out := &node{kind: listNode, pos: tokenPos(n.Start)}
		for _, v := range n.Values {
			item, e := c.node(v, depth+1)
			if e != nil {
				return nil, e
			}
			out.items = append(out.items, item)
		}
		return out, nil
	case *ast.AnchorNode:
		out, e := c.node(n.Value, depth+1)
		if e == nil {
			c.anchors[n.Name.GetToken().Value] = out
		}
		return out, e
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if out := c.anchors[name]; out != nil {
			return out, nil
		}
		return nil, c.src.fault(codeSyntax, tokenPos(n.GetToken()), "", "there is no anchor &"+name+" before this line",
			"write &"+name+" in front of the value that *"+name+" repeats")
	case *ast.TagNode:
		return nil, c.src.fault(codeSyntax, tokenPos(n.GetToken()), "", "YAML tags such as "+strings.TrimSpace(n.GetToken().Value)+" are not used here", "remove the tag; quote the value to make it text")
	}
	return c.scalar(n)
}

func (c *converter) scalar(n ast.Node) (*node, *Error) {
	t := n.GetToken()
	if t == nil {
		return nil, c.src.fault(codeSyntax, pos{}, "", "unexpected "+n.Type().String(), "")
	}
	out := &node{kind: scalarNode, pos: tokenPos(t), text: t.Value}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = nullNode
	case *ast.LiteralNode:
		out.text, out.quoted, out.block = n.Value.Value, true, true
	case *ast.StringNode:
		out.text = n.Value
		out.quoted = t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
	default:
		return nil, c.src.fault(codeSyntax, out.pos, "", "unexpected "+n.Type().String(), "")
	}
	return out, nil
}

func (c *converter) mapping(m *ast.MappingNode, depth int) (*node, *Error) {
	out := &node{kind: mapNode, pos: pos{line: 1, col: 1, width: 1}}
	if m.Start != nil && m.Start.Type == token.MappingStartType {
		out.pos = tokenPos(m.Start)
	} else if len(m.Values) > 0 {
		out.pos = tokenPos(m.Values[0].Key.GetToken())
	}
	seen := map[string]pos{}
	var merges []*node
	for _, v := range m.Values {
		value, e := c.node(v.Value, depth+1)
		if e != nil {
			return nil, e
		}
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merges = append(merges, value)
			continue
		}
		p, e := c.pair(v, value, seen)
		if e != nil {
			return nil, e
		}
		out.pairs = append(out.pairs, p)
	}
	return out, c.merge(out, merges, seen)
}

func (c *converter) pair(v *ast.MappingValueNode, value *node, seen map[string]pos) (pair, *Error) {
	key, e := c.node(v.Key, maxDepth)
	if k, ok := v.Key.(*ast.MappingKeyNode); ok {
		key, e = c.node(k.Value, maxDepth)
	}
	if e != nil || key.kind != scalarNode {
		return pair{}, c.src.fault(codeSyntax, tokenPos(v.Key.GetToken()), "", "this cannot be the name of a setting", "names are plain text: `name: value`")
	}
	if first, ok := seen[key.text]; ok {
		return pair{}, c.src.fault(codeDuplicate, key.pos, "", strconv.Quote(key.text)+" is given twice",
			"the first is at line "+strconv.Itoa(first.line)+"; keep one of them")
	}
	seen[key.text] = key.pos
	return pair{name: key.text, key: key.pos, value: value}, nil
}

// merge adds what `<<: *anchor` names and the mapping does not set itself.
func (c *converter) merge(out *node, merges []*node, seen map[string]pos) *Error {
	for len(merges) > 0 {
		m := merges[0]
		merges = merges[1:]
		switch m.kind {
		case listNode:
			merges = append(m.items[:len(m.items):len(m.items)], merges...)
		case mapNode:
			for _, p := range m.pairs {
				if _, ok := seen[p.name]; ok {
					continue
				}
				seen[p.name] = p.key
				out.pairs = append(out.pairs, p)
			}
		default:
			return c.src.fault(codeSyntax, m.pos, "", "<< needs a mapping, and this is "+m.kind.String(), "write <<: *anchor")
		}
		if len(out.pairs) > maxMerge || len(merges) > maxMerge {
			return c.src.fault(codeSyntax, out.pos, "", "too many merged settings", "")
		}
	}
	return nil
}

// get gives the value of a name in a mapping, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, p := range n.pairs {
		if p.name == name {
			return p.value
		}
	}
	return nil
}
