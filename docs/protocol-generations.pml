/*
 * What protocol.pml leaves out between two generations of one task: the bump
 * that seals the old one, attempts and epochs that begin at 1 again, the sweep
 * that compares generations, and the locks of a late zombie in a two-phase sink.
 *
 * Record r is epoch r of the generation, counted on from where the one before was
 * sealed. Staged work holds a lock on its record until it is committed or
 * rolled back. Old workers may run on as zombies while the bump and the new
 * generation go on; the bump itself may die anywhere and be run again.
 * Safety: every record is output and shown exactly once, in order, after its
 * decision. Liveness: the last worker comes to its end.
 *
 * A crash needs no step of its own: a worker may stop at any point by taking no
 * further step, which is also what a zombie does until it wakes.
 *
 * Switches that must each make the check fail:
 *   NO_SEAL         the bump reads where the old generation is, and seals nothing
 *   SEAL_UNSEEN     a takeover that reads a sealed record goes on
 *   FENCE_ONE       the bump fences one of the two ids
 *   META_EARLY      the next generation is written before the old one is finished
 *   SWEEP_ANY_GEN   the sweep compares attempts, whatever their generation
 *   SWEEP_OWN_GEN   the sweep leaves alone what zombies of older generations stage
 *   MARK_ANY_GEN    marks of work that is done do not hold the generation
 *   NO_RESWEEP      the sweep is not run again when a lock is waited for
 */
#ifndef N
#define N 2            /* source records */
#endif
#ifndef OLD
#define OLD 1          /* workers of the old generation */
#endif
#ifndef BUMPS
#define BUMPS 1        /* times the bump is run */
#endif
#ifndef NEW
#define NEW 1          /* workers of the new generation, the last of which must succeed */
#endif
#ifndef AM
#define AM 4           /* attempts of a generation */
#endif
#define ID(g, a) ((g)*AM + (a) - 1)
#define FINAL (OLD+BUMPS+NEW)

typedef Vec { byte v[N+2] }

byte owner[4]; bit open[4]; bit txj[4];     /* by 2*generation + producer */
Vec  txp[4];                                /* the pending list in that record */
byte jepoch[2], jatt[2]; bit sealed[2]; Vec jp[2];
byte meta;                                  /* the current generation, 0 or 1 */
byte start;                                 /* where generation 1 begins: records before it */
Vec  st[2*AM];                              /* by generation and attempt: 0 none 1 staged 2 committed 3 rolled back */
byte out, shown;                            /* through which record, in order */

#define REC(g, e) ((g) * start + (e))       /* the record of an epoch */

inline copyvec(to, from) {
  k = 1; do :: k <= N -> to.v[k] = from.v[k]; k++ :: else -> break od; k = 0
}

inline commit(a, e) {                       /* idempotent */
  atomic {
#ifdef MARK_ANY_GEN
    done = (st[ID(0, a)].v[e] == 2 || st[ID(1, a)].v[e] == 2);
#else
    done = (st[ID(g, a)].v[e] == 2);
#endif
    assert(done || st[ID(g, a)].v[e] == 1);
    if
    :: !done ->
         assert(shown == REC(g, e) - 1 && out > shown);
         st[ID(g, a)].v[e] = 2; shown++
    :: else
    fi; done = 0
  }
}

/* A lock on the record that somebody else's staged work holds. */
inline locked(e) {
  wait = 0; k = 0;
  do
  :: k < 2*AM ->
       r = REC(g, e) - (k / AM) * start;
       if :: k != ID(g, att) && r >= 1 && r <= N && st[k].v[r] == 1 -> wait = 1 :: else fi; k++
  :: else -> break
  od; k = 0; r = 0
}

inline sweep() {
  k = 0;
  do
  :: k < 2*AM ->
       if
#ifdef SWEEP_ANY_GEN
       :: (k % AM) + 1 < att ->
#else
#ifdef SWEEP_OWN_GEN
       :: k / AM == g && (k % AM) + 1 < att ->
#else
       :: (k / AM == g && (k % AM) + 1 < att) || k / AM < g ->
#endif
#endif
            r = 1;
            do
            :: r <= N -> if :: st[k].v[r] == 1 && (k / AM != g || lp.v[r] != (k % AM) + 1) -> st[k].v[r] = 3 :: else fi; r++
            :: else -> break
            od
       :: else
       fi; k++
  :: else -> break
  od; k = 0; r = 0
}

/* me: its number; g: its generation; seal: it is the bump. */
proctype Worker(byte me, g; bit seal) {
  byte att, next, ended, conf, X, k, r;
  bit wait, done, sl;
  byte ph[2], ep[2];
  Vec lp;

  if                                        /* a worker starts in the current generation */
  :: meta == g
  :: meta > g -> goto dead
  fi;
takeover:
  atomic { ph[0] = 0; ph[1] = 0; ep[0] = 0; ep[1] = 0; owner[2*g] = me; open[2*g] = 0; txj[2*g] = 0 };
#ifdef FENCE_ONE
  if :: seal :: else -> atomic { owner[2*g+1] = me; open[2*g+1] = 0; txj[2*g+1] = 0 } fi;
#else
  atomic { owner[2*g+1] = me; open[2*g+1] = 0; txj[2*g+1] = 0 };
#endif
  atomic { ended = jepoch[g]; att = jatt[g] + 1; sl = sealed[g]; copyvec(lp, jp[g]) };
  atomic {                                  /* a sealed record ends every takeover but the bump's */
    if
#ifndef SEAL_UNSEEN
    :: sl && !seal -> goto dead
#endif
    :: else
    fi;
#ifdef NO_SEAL
    if :: seal -> goto sealed_ :: else fi;
#endif
    if
    :: owner[2*g] != me -> goto lost
    :: owner[2*g] == me ->
         assert(jepoch[g] == ended);
         jatt[g] = att; sealed[g] = sealed[g] || seal
    fi;
    assert(att <= AM) };
sealed_:
#ifdef META_EARLY
  if :: seal && meta == 0 -> atomic { start = ended; meta = 1 } :: else fi;
#endif
  next = ended + 1;
  k = 1;
  do
  :: k <= N -> if :: lp.v[k] != 0 -> commit(lp.v[k], k) :: else fi; k++
  :: else -> break
  od;
  atomic { sweep() };
  atomic { k = 1; do :: k <= N -> lp.v[k] = 0; k++ :: else -> break od; k = 0; conf = ended };
  if
  :: seal -> atomic { if :: meta == 0 -> start = ended; meta = 1 :: else fi; goto dead }
  :: else
  fi;

  do
  :: REC(g, next) <= N && ph[next&1] == 0 && next <= ended + 2 -> atomic {
       X = next & 1;
       if
       :: owner[2*g+X] == me -> open[2*g+X] = 1; txj[2*g+X] = 0; ph[X] = 1; ep[X] = next; next++
       :: else -> goto lost
       fi }
  /* the barrier: the sink stages, unless a lock is in the way; then the sweep runs again */
  :: ph[0] == 1 || ph[1] == 1 -> atomic {
       if :: ph[0] == 1 -> X = 0 :: ph[1] == 1 -> X = 1 fi;
       locked(ep[X]);
       if
       :: !wait -> st[ID(g, att)].v[ep[X]] = 1; ph[X] = 2
#ifndef NO_RESWEEP
       :: wait -> sweep(); locked(ep[X]);
            if
            :: !wait
            :: wait -> goto lost            /* the time-out of the epoch: somebody newer holds it */
            fi
#endif
       fi; wait = 0 }
  :: (ph[0] == 2 && (ep[0] == ended + 1 || ph[1] == 3)) ||
     (ph[1] == 2 && (ep[1] == ended + 1 || ph[0] == 3)) -> atomic {
       X = (ph[0] == 2 && (ep[0] == ended + 1 || ph[1] == 3) -> 0 : 1);
       if
       :: owner[2*g+X] == me && open[2*g+X] ->
            lp.v[ep[X]] = att; txj[2*g+X] = 1; ph[X] = 3; k = 1;
            do
            :: k <= N -> txp[2*g+X].v[k] = (k <= ep[X] -> lp.v[k] : 0); k++
            :: else -> break
            od; k = 0
       :: else -> goto lost
       fi }
  :: (ph[0] == 3 && ended == ep[0] - 1) || (ph[1] == 3 && ended == ep[1] - 1) -> atomic {
       X = (ph[0] == 3 && ended == ep[0] - 1 -> 0 : 1);
       if
       :: owner[2*g+X] == me && open[2*g+X] && txj[2*g+X] ->
            open[2*g+X] = 0; txj[2*g+X] = 0; jepoch[g] = ep[X];
            out++; assert(out == REC(g, ep[X]));
            copyvec(jp[g], txp[2*g+X]);
            ph[X] = 0; ended = ep[X]; ep[X] = 0
       :: else -> goto lost
       fi }
  :: conf < ended -> commit(lp.v[conf+1], conf+1); atomic { conf++; lp.v[conf] = 0 }
  :: ph[0] == 0 && ph[1] == 0 && conf == ended && REC(g, ended) == N -> break
  od;
  assert(out == N && shown == N);
  goto dead;
lost:
  if
  :: me == FINAL || me == OLD + BUMPS -> goto takeover  /* the last one of each must succeed */
  :: else -> goto dead
  fi;
dead:                                       /* one state, whatever came before */
  atomic {
    att = 0; next = 0; ended = 0; conf = 0; X = 0; k = 0; r = 0; wait = 0; sl = 0; ph[0] = 0; ph[1] = 0; ep[0] = 0; ep[1] = 0;
    k = 1; do :: k <= N -> lp.v[k] = 0; k++ :: else -> break od; k = 0 }
}

#ifdef EMIT              /* print every state as others see it; see docs/model.md */
proctype Probe() {
end:
  do
  :: c_code {
       int g_, a_, k_;
       printf("@");
       for (g_ = 0; g_ < 2; g_++) {
         printf("%d %d", now.jepoch[g_], now.jatt[g_]);
         for (k_ = 1; k_ <= N; k_++) printf(" %d", now.jp[g_].v[k_]);
         printf(" %d", now.sealed[g_]);
         for (k_ = 2*g_; k_ < 2*g_ + 2; k_++) printf(" %d%d%d", now.owner[k_], now.open[k_], now.open[k_] && now.txj[k_]);
         printf("|");
       }
       printf("%d %d|", now.meta, now.start);
       for (g_ = 0; g_ < 2; g_++)
         for (a_ = 1; a_ <= EMIT; a_++) for (k_ = 1; k_ <= N; k_++) printf("%d", a_ <= AM ? now.st[ID(g_, a_)].v[k_] : 0);
       printf("\n"); }
  od
}
#endif

init {
  byte w;
  atomic {
#ifdef EMIT
    run Probe();
#endif
    w = 1;
    do
    :: w <= OLD -> run Worker(w, 0, 0); w++
    :: w > OLD && w <= OLD + BUMPS -> run Worker(w, 0, 1); w++
    :: w > OLD + BUMPS && w <= FINAL -> run Worker(w, 1, 0); w++
    :: else -> break
    od; w = 0
  }
}
