package httpsink

// lanes sorts calls into groups that share a Kafka key or an idempotency key,
// directly or through others, each in the order of the batch, and the groups by
// their first call. Calls with neither are groups of their own: Kafka gives
// records without a key no order either.
func lanes(calls []*call) [][]*call {
	u := union{parent: make([]int, len(calls))}
	first := make(map[string]int, 2*len(calls))
	for i, c := range calls {
		u.parent[i] = i
		if c.group != nil {
			u.same(first, "k"+string(c.group), i)
		}
		if c.key != "" {
			u.same(first, "i"+c.key, i)
		}
	}
	var out [][]*call
	at := make(map[int]int, len(calls)) // root to lane
	for i, c := range calls {
		root := u.root(i)
		lane, ok := at[root]
		if !ok {
			lane = len(out)
			at[root] = lane
			out = append(out, nil)
		}
		out[lane] = append(out[lane], c)
	}
	return out
}

// union is a disjoint-set forest with path halving.
type union struct{ parent []int }

func (u union) root(i int) int {
	for u.parent[i] != i {
		u.parent[i] = u.parent[u.parent[i]]
		i = u.parent[i]
	}
	return i
}

// same joins i with the first call that had the name.
func (u union) same(first map[string]int, name string, i int) {
	j, ok := first[name]
	if !ok {
		first[name] = i
		return
	}
	u.parent[u.root(i)] = u.root(j)
}
