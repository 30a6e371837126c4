package config

import (
	"strconv"
	"strings"
)

// nearest gives the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	folded := fold(name)
	best, bestDistance := "", len(folded)/3+1
	for _, c := range candidates {
		d := distance(folded, fold(c))
		if d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = c, d
		}
	}
	if best != "" || len(folded) < 4 {
		return best
	}
	for _, c := range candidates {
		if f := fold(c); strings.HasPrefix(f, folded) || strings.HasPrefix(folded, f) && len(f) > 2 {
			return c
		}
	}
	return ""
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// distance is the number of edits (insert, delete, replace, swap neighbours)
// between two strings, by bytes.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// meant gives `did you mean "x"? ` and the list of what there is.
func meant(name string, candidates []string, what string) string {
	list := what + " " + strings.Join(candidates, ", ")
	if near := nearest(name, candidates); near != "" {
		if len(candidates) == 1 {
			return "did you mean " + strconv.Quote(near) + "?"
		}
		return "did you mean " + strconv.Quote(near) + "? " + list
	}
	return list
}

// orList lists names as a, b or c.
func orList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := names[len(names)-1]
	return strings.Join(names[:len(names)-1], ", ") + " or " + last
}
