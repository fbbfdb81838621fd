(* Attention at infinite inverse temperature: the averaging hardmax of the scores
   -|query - key|^2, that is uniform weights on the set of nearest keys (the paper's Section 2). *)
From mathcomp Require Import all_ssreflect all_algebra.
From LeanLloyd Require Import tokens.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Hardmax.
Variable F : realFieldType.

(* The maximizers of the score: all keys at the smallest distance from the query. *)
Definition nearest s m (q : 'rV[F]_m) (K : 'M[F]_(s, m)) : {set 'I_s} :=
  [set i | [forall l, sqdist q (row i K) <= sqdist q (row l K)]].

Definition hardmax s (S : {set 'I_s}) (i : 'I_s) : F := (i \in S)%:R / #|S|%:R.

Definition attend s m w (q : 'rV[F]_m) (K : 'M[F]_(s, m)) (V : 'M[F]_(s, w)) : 'rV[F]_w :=
  \sum_i hardmax (nearest q K) i *: row i V.

(* One attention module: the tokens A ask, the tokens O answer. *)
Definition attention a b m (Q K V : 'M[F]_m) (A : 'M[F]_(a, m)) (O : 'M[F]_(b, m)) :
    'M[F]_(a, m) :=
  \matrix_i attend (row i (A *m Q)) (O *m K) (O *m V).

(* The plain average of the rows in a set. *)
Definition mean s w (S : {set 'I_s}) (V : 'M[F]_(s, w)) : 'rV[F]_w :=
  #|S|%:R^-1 *: \sum_(i in S) row i V.

Lemma attend_mean s m w (q : 'rV[F]_m) (K : 'M[F]_(s, m)) (V : 'M[F]_(s, w)) :
  attend q K V = mean (nearest q K) V.
Proof.
rewrite /attend /mean scaler_sumr [RHS]big_mkcond /=; apply: eq_bigr => i _.
by rewrite /hardmax; case: (i \in _); rewrite ?mul1r ?mul0r ?scale0r.
Qed.

Lemma nearestP s m (q : 'rV[F]_m) (K : 'M[F]_(s, m)) i :
  reflect (forall l, sqdist q (row i K) <= sqdist q (row l K)) (i \in nearest q K).
Proof. by rewrite inE; apply: forallP. Qed.

Lemma nonempty_nearest s m (q : 'rV[F]_m) (K : 'M[F]_(s, m)) (l : 'I_s) : nearest q K != set0.
Proof.
case: (arg_minP (fun i => sqdist q (row i K)) (isT : xpredT l)) => i _ hi.
by apply/set0Pn; exists i; apply/nearestP => l'; apply: hi.
Qed.

(* Where a key sits on the query, the nearest keys are those that do. *)
Lemma nearest_hit s m (q : 'rV[F]_m) (K : 'M[F]_(s, m)) l :
  row l K = q -> nearest q K = [set i | row i K == q].
Proof.
move=> hl; apply/setP => i; rewrite [RHS]inE; apply/nearestP/eqP => [h|-> l'].
  apply/eqP; rewrite eq_sym -sqdist_eq0 eq_le sqdist_ge0 andbT.
  by rewrite (le_trans (h l)) // hl sqdist_self.
by rewrite sqdist_self sqdist_ge0.
Qed.

Lemma eq_nearest s m m' (q : 'rV[F]_m) (K : 'M[F]_(s, m)) (q' : 'rV[F]_m') (K' : 'M[F]_(s, m')) :
  (forall i, sqdist q (row i K) = sqdist q' (row i K')) -> nearest q K = nearest q' K'.
Proof.
move=> h; apply/setP => i; apply/nearestP/nearestP => H l; move: (H l); by rewrite !h.
Qed.

Lemma mean_const s w (S : {set 'I_s}) (V : 'M[F]_(s, w)) v :
  S != set0 -> (forall i, i \in S -> row i V = v) -> mean S V = v.
Proof.
move=> hS hV; rewrite /mean (eq_bigr (fun=> v)) // sumr_const -scaler_nat scalerA mulVf ?scale1r //.
by rewrite pnatr_eq0 -lt0n card_gt0.
Qed.

Lemma mean_row_mx s d p (S : {set 'I_s}) (X : 'M[F]_(s, d)) (Y : 'M[F]_(s, p)) :
  mean S (row_mx X Y) = row_mx (mean S X) (mean S Y).
Proof.
rewrite /mean -scale_row_mx; congr (_ *: _).
by elim/big_rec3: _ => [|i a b c _ ->]; rewrite ?row_mx0 // row_row_mx add_row_mx.
Qed.

Lemma mean0 s w (S : {set 'I_s}) : mean S (0 : 'M[F]_(s, w)) = 0.
Proof. by rewrite /mean big1 ?scaler0 // => i _; apply/rowP => c; rewrite !mxE. Qed.

Lemma meanN s w (S : {set 'I_s}) (V : 'M[F]_(s, w)) : mean S (- V) = - mean S V.
Proof.
rewrite /mean -scalerN -sumrN; congr (_ *: _); apply: eq_bigr => i _.
by apply/rowP => c; rewrite !mxE.
Qed.

End Hardmax.
