package config

import "strings"

// hide keeps the secrets of a tree out of excerpts, before anything can be
// wrong in a line that holds one.
func (l *loader) hide(b *block, n *node, seen map[*node]bool) {
	if b == nil || seen[n] { // an alias may lead to one node in many ways
		return
	}
	seen[n] = true
	for _, item := range n.items {
		l.hide(b, item, seen)
	}
	for _, p := range n.pairs {
		s := b.find(p.name)
		switch {
		case s == nil:
		case s.kind == kindSinks:
			for _, sink := range p.value.pairs {
				for _, kind := range sink.value.pairs {
					l.hide(l.blocks[kind.name], kind.value, seen)
				}
			}
		case s.secret:
			l.hideValue(p.value, seen)
		default:
			l.hide(s.block, p.value, seen)
		}
	}
}

func (l *loader) hideValue(n *node, seen map[*node]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	for _, item := range n.items {
		l.hideValue(item, seen)
	}
	for _, p := range n.pairs {
		l.hideValue(p.value, seen)
	}
	if n.kind != scalarNode || fromElsewhere.MatchString(n.text) {
		return
	}
	at, ok := l.src.hidden[n.pos.line]
	if !ok || n.pos.col-1 < at {
		l.src.hidden[n.pos.line] = n.pos.col - 1
	}
	if lines := strings.Count(n.text, "\n"); n.block {
		for i := 1; i <= lines+1; i++ {
			l.src.hidden[n.pos.line+i] = 0
		}
	}
}
