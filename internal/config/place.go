package config

import "unicode"

// place gives where the rune at index of a scalar's text stands in the file:
// behind quotes and escapes, on the right line of a block. It walks text and
// file side by side; white space, escapes and folding may differ between them,
// everything else is the same.
func (l *loader) place(n *node, index, width int) pos {
	line, col := n.pos.line, n.pos.col
	if n.block {
		line, col = line+1, 1
	}
	want := []rune(n.text)
	index = min(index, max(len(want)-1, 0))
	for i := 0; i <= index && i < len(want); i++ {
		if unicode.IsSpace(want[i]) {
			if i < index {
				continue
			}
			break
		}
		var ok bool
		if line, col, ok = l.find(want[i], line, col); !ok {
			return n.pos
		}
		if i < index {
			col++
		}
	}
	return pos{line: line, col: col, width: max(width, 1)}
}

// maxFolded bounds how many lines further one rune of a scalar may stand.
const maxFolded = 50

func (l *loader) find(r rune, line, col int) (int, int, bool) {
	for range maxFolded {
		if line > len(l.src.lines) {
			return 0, 0, false
		}
		runes := l.src.runes(line)
		for c := col; c <= len(runes); c++ {
			if runes[c-1] == r {
				return line, c, true
			}
		}
		line, col = line+1, 1
	}
	return 0, 0, false
}
