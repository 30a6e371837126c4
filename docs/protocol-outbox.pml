/*
 * What protocol.pml leaves out of one task: the outbox and its trimming, a
 * ledger sink with cursor and verdicts, and an object sink that stages decided
 * records of several epochs as one rolling committable.
 *
 * An epoch takes one source record along, or only confirms. Record i is the
 * i-th, so a position in the outbox is a number. Record P is refused by the
 * ledger sink: its verdict becomes a dead letter of the epoch whose journal
 * record moves the cursor over it.
 * Safety: every record is output, and shown by each sink, exactly once, in
 * order, after its decision; P is a dead letter once; nothing is trimmed that
 * the rightful owner still reads.
 *
 * A crash needs no step of its own: a worker may stop at any point by taking no
 * further step, which is also what a zombie does until it wakes.
 *
 * Switches that must each make the check fail:
 *   NO_CLAIM        a new owner starts without the claim transaction
 *   LEDGER_ANY      the ledger accepts any higher batch, not just what follows
 *   NO_LEDGER       the ledger sink applies without looking at its ledger
 *   CURSOR_LOST     the claim forgets the cursors
 *   CURSOR_EARLY    the object sink's cursor moves before its committable is listed
 *   VERDICT_DROP    what the ledger keeps is not asked for at a takeover
 *   VERDICT_EARLY   the ledger forgets a verdict once it was reported
 *   VERDICT_APART   the verdict is in another journal record than its cursor
 *   TRIM_TAIL       the outbox is trimmed to its decided end
 *   TRIM_EARLY      the outbox is trimmed to cursors that are not decided
 *   TRIM_RANGE      trimming forgets the range of the unconfirmed committable
 *   ITEM_LOST       the next journal record forgets the committable
 *   ITEM_EARLY      the object is completed before its decision
 *   GONE_IS_DONE    what the store has thrown away is taken for completed
 *   SWEEP_LISTED    the sweep also rolls back what the journal lists
 */
#ifndef N
#define N 2            /* source records */
#endif
#ifndef P
#define P 2            /* the one that is refused */
#endif
#ifndef NW
#define NW 1           /* workers that may crash or turn into zombies */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 0     /* broker-side aborts */
#endif
#ifndef LOSSES
#define LOSSES 1       /* times the store throws staged work away */
#endif
#ifndef AMAX
#define AMAX 4         /* attempts */
#endif
#define FINAL (NW+1)   /* the worker that must succeed in the end */

#ifndef SINKS
#define SINKS 3        /* 1 the ledger sink, 2 the object sink, 3 both */
#endif
#define LEDGER (SINKS & 1)
#define OBJECT (SINKS & 2)

/* The part of a journal record that matters here. */
typedef Rec {
  byte tail;           /* records decided */
  byte lc, oc;         /* cursors of the ledger sink and the object sink */
  byte ia, ifrom, ito  /* the committable: attempt (0: none), range (from, to] */
}
typedef Row { byte v[N+2] }

byte owner[2]; bit open[2]; bit txj[2];
Rec  tx[2];            /* the journal record in the open transaction */
bit  txr[2], txv[2];   /* it holds a source record; a dead letter */
byte jepoch, jatt;     /* the last committed journal record */
Rec  j;
byte low;              /* records through here are trimmed */
byte led;              /* the ledger: applied through here */
bit  kept;             /* it keeps the verdict on P */
Row  obj[AMAX+1];      /* staged by attempt, up to: 0 none 1 staged 2 complete 3 rolled back 4 gone */
byte out, letters;
byte rows[N+2], shown[N+2];
byte losses, tmo;

inline copyrec(to, from) {
  to.tail = from.tail; to.lc = from.lc; to.oc = from.oc;
  to.ia = from.ia; to.ifrom = from.ifrom; to.ito = from.ito
}
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#if defined(TRIM_TAIL)
#define CURSORS tail
#elif defined(TRIM_EARLY)
#define CURSORS (!OBJECT -> lc : (!LEDGER -> oc : MIN(lc, oc)))
#else
#define CURSORS (!OBJECT -> dl : (!LEDGER -> do_ : MIN(dl, do_)))
#endif
#define DONE ((!LEDGER || dl == N) && (!OBJECT || do_ == N))
#ifdef TRIM_RANGE
#define BOUND CURSORS
#else
#define BOUND MIN(CURSORS, (ia -> ifrom : N))
#endif

/* A zombie may find its records trimmed, which ends it; the rightful owner never. */
inline reads(from) {
  if
  :: from < low -> assert(jatt != att); goto lost
  :: else
  fi
}

proctype Worker(byte me) {
  byte att, next, ended, X, i, t, d;
  byte ph[2], ep[2];
  bit has[2], dirty, vp, sets;
  byte src;            /* records taken from the source */
  byte tail;           /* decided, in this owner's view */
  byte lc, oc;         /* cursors, as far as they are known */
  byte dl, do_;        /* cursors that are decided */
  byte ia, ifrom, ito; /* the committable */
  byte listed;         /* the epoch that decides it; 0: none yet */
  byte at;             /* the ledger sink's place: where the next batch begins */
#ifdef VERDICT_APART
  bit apart;
#endif
#ifdef CURSOR_EARLY
  bit seen;
#endif

takeover:
  atomic { ph[0] = 0; ph[1] = 0; ep[0] = 0; ep[1] = 0; has[0] = 0; has[1] = 0;
           dirty = 0; vp = 0; listed = 0; owner[0] = me; open[0] = 0; txj[0] = 0 };
  atomic { owner[1] = me; open[1] = 0; txj[1] = 0 };
  atomic { ended = jepoch; att = jatt + 1; tail = j.tail; lc = j.lc; oc = j.oc; ia = j.ia; ifrom = j.ifrom; ito = j.ito;
#ifdef CURSOR_LOST
    lc = 0; oc = 0;
#endif
  };
  atomic {
    if
#ifdef NO_CLAIM
    :: true -> jatt++; att = jatt
#else
    :: owner[0] != me -> goto lost
    :: owner[0] == me -> assert(jepoch == ended);
         jatt = att; jepoch = ended; j.tail = tail; j.lc = lc; j.oc = oc
#endif
    fi;
    assert(att <= AMAX);
    next = ended + 1; src = tail; dl = lc; do_ = oc };
  atomic {                               /* sweep: what older attempts staged and nobody lists */
    t = 1;
    do
    :: t < att -> i = 1;
         do
         :: i <= N ->
              if
#ifdef SWEEP_LISTED
              :: obj[t].v[i] == 1 -> obj[t].v[i] = 3
#else
              :: obj[t].v[i] == 1 && !(ia == t && ito == i) -> obj[t].v[i] = 3
#endif
              :: else
              fi; i++
         :: else -> break
         od; t++
    :: else -> break
    od; i = 0; t = 0;
    if :: ia -> listed = ended :: else fi };
  atomic {                               /* the ledger says where it stands, and which verdicts it keeps */
    if
    :: !LEDGER
    :: LEDGER ->
         assert(jatt != att || led >= lc);
         reads(lc);
         at = led;
         if
         :: at > tail -> assert(jatt != att); goto lost   /* a zombie's view is too old */
         :: else
         fi;
         if :: at > lc -> dirty = 1 :: else fi;
#ifndef VERDICT_DROP
         if :: kept && P > lc && P <= at -> vp = 1 :: else fi;
#endif
         lc = at
    fi };

  do
  /* begin: one record, or only to confirm */
  :: ph[next&1] == 0 && next <= ended + 2 && (src < N || (dirty && ph[1-(next&1)] == 0)) -> atomic {
       X = next & 1;
       if
       :: owner[X] == me ->
            if :: src < N -> src++; has[X] = 1 :: dirty && ph[1-X] == 0 -> has[X] = 0 fi;
            open[X] = 1; txj[X] = 0; ph[X] = 1; ep[X] = next; next++
       :: else -> goto lost
       fi }
  /* the journal record, with cursors, verdicts and the committable */
  :: (ph[0] == 1 && (ep[0] == ended + 1 || ph[1] == 2)) ||
     (ph[1] == 1 && (ep[1] == ended + 1 || ph[0] == 2)) -> atomic {
       X = (ph[0] == 1 && (ep[0] == ended + 1 || ph[1] == 2) -> 0 : 1);
       if
       :: owner[X] == me && open[X] ->
            txj[X] = 1; ph[X] = 2; dirty = 0;
            tx[X].tail = (ep[X] == next - 1 -> src : src - has[1-X]);
            tx[X].lc = lc; tx[X].oc = oc;
            if
#ifdef CURSOR_EARLY
            :: ia && !listed && !seen -> seen = 1; dirty = 1
#endif
#ifdef ITEM_LOST
            :: ia && listed
#endif
            :: else ->
                 if :: ia && !listed -> listed = ep[X] :: else fi;
                 tx[X].ia = ia; tx[X].ifrom = ifrom; tx[X].ito = ito
            fi;
            txr[X] = has[X];
#ifdef VERDICT_APART
            txv[X] = apart; apart = vp; dirty = dirty || vp;
#else
            txv[X] = vp;
#endif
            vp = 0
       :: else -> goto lost
       fi }
  /* the decision */
  :: (ph[0] == 2 && ended == ep[0] - 1) || (ph[1] == 2 && ended == ep[1] - 1) -> atomic {
       X = (ph[0] == 2 && ended == ep[0] - 1 -> 0 : 1);
       if
       :: owner[X] == me && open[X] && txj[X] ->
            open[X] = 0; txj[X] = 0; jepoch = ep[X]; copyrec(j, tx[X]);
            if :: txr[X] -> out++; assert(out == j.tail) :: else fi;
            if :: txv[X] -> letters++; assert(letters == 1) :: else fi;
            ended = ep[X]; tail = j.tail; dl = j.lc; do_ = j.oc;
            ph[X] = 0; ep[X] = 0; has[X] = 0; tx[X].tail = 0; tx[X].lc = 0; tx[X].oc = 0; tx[X].ia = 0; tx[X].ifrom = 0; tx[X].ito = 0; txr[X] = 0; txv[X] = 0
       :: else -> goto lost
       fi }
  /* the ledger sink applies one record or two, which begin behind its place */
  :: LEDGER && at < tail -> atomic {
       if :: t = at + 1 :: at + 2 <= tail -> t = at + 2 fi;
       reads(at);
       assert(led >= at);
#ifdef NO_LEDGER
       i = at + 1; sets = 1;
#else
#ifdef LEDGER_ANY
       i = at + 1; sets = (t > led -> 1 : 0);
#else
       i = led + 1; sets = (t > led -> 1 : 0);
#endif
#endif
       if
       :: sets ->
            do
            :: i <= t ->
                 assert(i == 1 || i - 1 == P || rows[i-1] == 1);
                 assert(i <= out);
                 if :: i == P -> kept = 1 :: else -> rows[i]++; assert(rows[i] == 1) fi; i++
            :: else -> break
            od; led = t
       :: else
       fi; sets = 0;
       if :: kept && P > at && P <= t -> vp = 1 :: else fi;
#ifdef VERDICT_EARLY
       if :: vp -> kept = 0 :: else fi;
#endif
       at = t; lc = t; dirty = 1; t = 0; i = 0 }
  /* the ledger forgets what is decided */
  :: kept && P <= dl -> kept = 0
  /* the object sink stages what is ripe: any run of decided records */
  :: OBJECT && ia == 0 && oc < tail -> atomic {
       if :: t = oc + 1 :: oc + 2 <= tail -> t = oc + 2 fi;
       reads(oc);
       ia = att; ifrom = oc; ito = t; listed = 0; obj[att].v[t] = 1; oc = t; dirty = 1; t = 0 }
  /* and completes it once it is decided; what the store threw away is built again */
#ifdef ITEM_EARLY
  :: ia -> atomic {
#else
  :: ia && listed && listed <= ended -> atomic {
#endif
       d = obj[ia].v[ito];
#ifndef GONE_IS_DONE
       if
       :: d == 4 || d == 3 ->
            assert(d == 4 || jatt != att);   /* the rightful owner's work is never swept */
            if :: d == 3 -> goto lost :: else fi;
            reads(ifrom); d = 1
       :: else
       fi;
#endif
       if
       :: d == 1 ->
            i = ifrom + 1;
            do
            :: i <= ito -> assert(i == 1 || shown[i-1] == 1); shown[i]++; assert(shown[i] == 1); i++
            :: else -> break
            od; obj[ia].v[ito] = 2
       :: else
       fi;
       ia = 0; ifrom = 0; ito = 0; listed = 0; dirty = 1; d = 0; i = 0 }
  :: BOUND > low -> low = BOUND
  :: tail == N && DONE && ia == 0 && !dirty && ph[0] == 0 && ph[1] == 0 -> break
  od;
  atomic {
    assert(out == N && letters == (LEDGER -> 1 : 0));
    i = 1;
    do
    :: i <= N -> assert(shown[i] == (OBJECT -> 1 : 0) && rows[i] == (!LEDGER || i == P -> 0 : 1)); i++
    :: else -> break
    od };
  goto dead;
lost:
  if
  :: me == FINAL -> goto takeover
  :: else -> goto dead
  fi;
dead:                                    /* one state, whatever came before */
  atomic {
    att = 0; next = 0; ended = 0; X = 0; i = 0; t = 0; d = 0; ph[0] = 0; ph[1] = 0; ep[0] = 0; ep[1] = 0; has[0] = 0; has[1] = 0;
    dirty = 0; vp = 0; sets = 0; src = 0; tail = 0; lc = 0; oc = 0; dl = 0; do_ = 0; ia = 0; ifrom = 0; ito = 0; listed = 0; at = 0 }
}

proctype Broker() {                      /* a transaction may time out */
end:
  do
  :: atomic { tmo < TIMEOUTS && open[0] -> open[0] = 0; txj[0] = 0; owner[0] = 0; tmo++ }
  :: atomic { tmo < TIMEOUTS && open[1] -> open[1] = 0; txj[1] = 0; owner[1] = 0; tmo++ }
  od
}

proctype Store() {                       /* what was staged may be gone before it is completed */
  byte a, i;
end:
  do
  :: atomic { losses < LOSSES ->
       select(a : 1 .. AMAX); select(i : 1 .. N);
       if
       :: obj[a].v[i] == 1 -> obj[a].v[i] = 4; losses++
       :: else
       fi; a = 0; i = 0 }
  od
}

#ifdef EMIT              /* print every state as others see it; see docs/model.md */
proctype Probe() {
end:
  do
  :: c_code {
       int a_, k_;
       printf("@%d %d %d %d %d %d %d %d", now.jepoch, now.jatt, now.j.tail, now.j.lc, now.j.oc, now.j.ia, now.j.ifrom, now.j.ito);
       for (k_ = 0; k_ < 2; k_++) printf(" %d%d%d", now.owner[k_], now.open[k_], now.open[k_] && now.txj[k_]);
       printf("|%d %d %d %d|", now.low, now.led, now.kept, now.letters);
       for (a_ = 1; a_ <= EMIT; a_++) for (k_ = 1; k_ <= N; k_++) printf("%d", a_ <= AMAX ? now.obj[a_].v[k_] : 0);
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
    do :: w <= NW -> run Worker(w); w++ :: else -> break od;
    run Worker(FINAL);
    run Broker();
    run Store()
  }
}
