package cel

import (
	"slices"
	"strings"
)

// nearest gives the candidate that looks most like name, or begins like it, or
// "" if none does. Ties go to the first in alphabetical order.
func nearest(name string, candidates []string) string {
	sorted := slices.Clone(candidates)
	slices.Sort(sorted)
	best, bestDist := "", max(1, len(name)/3)+1
	for _, c := range sorted {
		if strings.EqualFold(c, name) {
			return c
		}
		if d := distance(name, c); d < bestDist {
			best, bestDist = c, d
		}
	}
	if best == "" && len(name) >= 3 {
		for _, c := range sorted {
			if strings.HasPrefix(c, name) || len(c) >= 3 && strings.HasPrefix(name, c) {
				return c
			}
		}
	}
	return best
}

func didYouMean(name string, candidates []string) string {
	if n := nearest(name, candidates); n != "" {
		return "did you mean " + n + "?"
	}
	return ""
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	prev2, prev, cur := []int(nil), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(s); i++ {
		cur[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, make([]int, len(t)+1)
	}
	return prev[len(t)]
}
