(* Theorem 2.1 needs its hypotheses: instances worked out on the same definitions. They have the
   numbers of the ledger (`hypothesis-needed`). *)
From mathcomp Require Import all_ssreflect all_algebra.
From LeanLloyd Require Import tokens hardmax lloyd exact codes.
Set Implicit Arguments. Unset Strict Implicit. Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Line.
Variable F : realFieldType.

(* Points on a line, at multiples of 1/2. *)
Definition halves s (f : seq nat) : 'M[F]_(s, 1) := \matrix_(i, _) ((nth 0%N f i)%:R / 2%:R).

Definition apart (a b : nat) : nat := (a - b) + (b - a).

Lemma sqdist_halves a s f g (i : 'I_a) (j : 'I_s) :
  sqdist (row i (halves a f)) (row j (halves s g))
  = (apart (nth 0%N f i) (nth 0%N g j) ^ 2)%:R / 2%:R ^+ 2.
Proof.
rewrite /sqdist big_ord1 !mxE -mulrBl expr_div_n natrX; congr (_ / _).
rewrite /apart; case: (leqP (nth 0%N f i) (nth 0%N g j)) => h.
  by rewrite (eqP h) add0n natrB // -sqrrN opprB.
by move: (ltnW h) => h'; rewrite (eqP h') addn0 natrB.
Qed.

Lemma nearest_halves a s f g (i : 'I_a) (j : 'I_s) :
  (j \in nearest (row i (halves a f)) (halves s g))
  = [forall l : 'I_s, (apart (nth 0%N f i) (nth 0%N g j) <= apart (nth 0%N f i) (nth 0%N g l))%N].
Proof.
rewrite inE; apply: eq_forallb => l.
by rewrite !sqdist_halves ler_pmul2r ?invr_gt0 ?exprn_gt0 ?ltr0n // ler_nat leq_exp2r.
Qed.

Lemma halves_half s f : halves s f = 2%:R^-1 *: \matrix_(i, _) (nth 0%N f i)%:R.
Proof. by apply/matrixP => i c; rewrite !mxE mulrC. Qed.

Lemma binary2 : binary F 2 1 = halves 2 [:: 0; 2]%N.
Proof.
apply/matrixP => i c; rewrite !mxE ord1; case: i => [[|[|//]]] ? /=; first by rewrite mul0r.
by rewrite divff // pnatr_eq0.
Qed.

Lemma all2 (P : pred 'I_2) : [forall l, P l] = P 0 && P 1.
Proof.
apply/forallP/andP => [h|[h0 h1] [[|[|//]] p]]; first by split; apply: h.
  by rewrite (_ : Ordinal p = 0) //; apply: val_inj.
by rewrite (_ : Ordinal p = 1) //; apply: val_inj.
Qed.

Lemma all3 (P : pred 'I_3) : [forall l, P l] = [&& P 0, P 1 & P 2%:R].
Proof.
apply/forallP/and3P => [h|[h0 h1 h2] [[|[|[|//]]] p]]; first by split; apply: h.
- by rewrite (_ : Ordinal p = 0) //; apply: val_inj.
- by rewrite (_ : Ordinal p = 1) //; apply: val_inj.
by rewrite (_ : Ordinal p = 2%:R) //; apply: val_inj.
Qed.

Lemma mean1 s w (V : 'M[F]_(s, w)) i : mean [set i] V = row i V.
Proof.
by apply: mean_const => [|l]; [apply/set0Pn; exists i | ]; rewrite in_set1 // => /eqP ->.
Qed.

Lemma mean2 s w (V : 'M[F]_(s, w)) i j : i != j ->
  mean [set i; j] V = 2%:R^-1 *: (row i V + row j V).
Proof. by move=> h; rewrite /mean cards2 h big_setU1 ?inE //= big_set1. Qed.

(* A tie: the point 1 is as near to 0 as to 2. *)
Definition tie_X := halves 3 [:: 0; 2; 4]%N.
Definition tie_C := halves 2 [:: 0; 4]%N.

Lemma tie_nearest : [/\ nearest (row 0 tie_X) tie_C = [set 0], nearest (row 1 tie_X) tie_C = [set 0; 1]
  & nearest (row 2%:R tie_X) tie_C = [set 1]].
Proof.
by split; apply/setP => j; rewrite nearest_halves all2 !inE; case: j => [[|[|//]]] ?.
Qed.

Lemma tie_carried : carried tie_X tie_C (binary F 2 1) = halves 3 [:: 0; 1; 2]%N.
Proof.
have [h0 h1 h2] := tie_nearest.
apply/row_matrixP => i; rewrite rowK binary2; case: i => [[|[|[|//]]]] p.
- rewrite (_ : Ordinal p = 0) ?h0 ?mean1; last exact: val_inj.
  by apply/rowP => c; rewrite !mxE.
- rewrite (_ : Ordinal p = 1) ?h1 ?mean2 //; last exact: val_inj.
  by apply/rowP => c; rewrite !mxE /= mul0r add0r mul1r divff ?mulr1 // pnatr_eq0.
rewrite (_ : Ordinal p = 2%:R) ?h2 ?mean1; last exact: val_inj.
by apply/rowP => c; rewrite !mxE.
Qed.

Lemma tie_moved : moved tie_X tie_C (binary F 2 1) = tie_C.
Proof.
apply/row_matrixP => j; rewrite rowK tie_carried binary2; case: j => [[|[|//]]] p.
  rewrite (_ : nearest _ _ = [set 0]) ?mean1; last first.
    by apply/setP => l; rewrite nearest_halves all3 !inE; case: l => [[|[|[|//]]]] ?.
  by apply/rowP => c; rewrite !mxE.
rewrite (_ : nearest _ _ = [set 2%:R]) ?mean1; last first.
  by apply/setP => l; rewrite nearest_halves all3 !inE; case: l => [[|[|[|//]]]] ?.
by apply/rowP => c; rewrite !mxE.
Qed.

(* Lloyd gives the tied point to the center of lowest index. *)
Lemma pick2 (P : pred 'I_2) :
  [pick j | P j] = if P 0 then Some 0 else if P 1 then Some 1 else None.
Proof.
rewrite /pick /enum_mem -enumT !enum_ordSl (size0nil (size_enum_ord 0)) /= /in_mem /=.
rewrite (_ : lift ord0 ord0 = 1); last exact: val_inj.
by case: (P _) => //; case: (P _).
Qed.

Lemma tie_cluster j : cluster tie_X tie_C j = if j == 0 then [set 0; 1] else [set 2%:R].
Proof.
have [h0 h1 h2] := tie_nearest.
have e (i : 'I_3) : assignment tie_X tie_C i = Some (if i == 2%:R then 1 else 0).
  rewrite /assignment pick2; case: i => [[|[|[|//]]] q].
  - by rewrite (_ : Ordinal q = 0) ?h0 ?inE //; apply: val_inj.
  - by rewrite (_ : Ordinal q = 1) ?h1 ?inE //; apply: val_inj.
  by rewrite (_ : Ordinal q = 2%:R) ?h2 ?inE //; apply: val_inj.
apply/setP => i; rewrite inE e.
by case: j => [[|[|//]] ?]; case: i => [[|[|[|//]]] q]; rewrite !inE.
Qed.

Lemma tie_lloyd : lloyd 1 tie_X tie_C = halves 2 [:: 1; 4]%N.
Proof.
apply/row_matrixP => j; rewrite rowK tie_cluster; case: j => [[|[|//]]] p /=.
  rewrite ifN; last by apply/set0Pn; exists 0; rewrite !inE.
  rewrite mean2 //; apply/rowP => c; rewrite !mxE /= mul0r add0r.
  by rewrite divff ?mulr1 ?mul1r // pnatr_eq0.
rewrite ifN; last by apply/set0Pn; exists 2%:R; rewrite !inE.
by rewrite mean1; apply/rowP => c; rewrite !mxE.
Qed.

Lemma halves_differ s f g (i : 'I_s) :
  nth 0%N f i != nth 0%N g i -> halves s f <> halves s g.
Proof.
move=> h /matrixP /(_ i 0); rewrite !mxE => e; move: h.
have h2 : (2%:R : F)^-1 != 0 by rewrite invr_eq0 pnatr_eq0.
by move/eqP: (mulIf h2 e); rewrite eqr_nat => ->.
Qed.

(* X = 0, 1, 2 and C = 0, 2: no cluster is empty, Lloyd has 1/2 and 2, the layer 0 and 2. *)
Theorem tie_counterexample : [/\ no_empty_cluster tie_X tie_C,
  lloyd 1 tie_X tie_C = halves 2 [:: 1; 4]%N,
  stacked 1 tie_X tie_C (binary F 2 1) = halves 2 [:: 0; 4]%N &
  stacked 1 tie_X tie_C (binary F 2 1) <> lloyd 1 tie_X tie_C].
Proof.
have h : distinct_codes (binary F 2 1) by exact: (@binary_distinct F 2).
have e : stacked 1 tie_X tie_C (binary F 2 1) = tie_C.
  by rewrite (stacked_closed_form 1 tie_X tie_C h) /= tie_moved.
split=> //; last first.
- by rewrite e tie_lloyd; apply: (@halves_differ _ _ _ 0).
- exact: tie_lloyd.
move=> j; rewrite tie_cluster; case: ifP => _; apply/set0Pn.
  by exists 0; rewrite !inE.
by exists 2%:R; rewrite !inE.
Qed.

(* An empty cluster: both points sit on the first center. *)
Definition hole_X := halves 2 [:: 0; 0]%N.
Definition hole_C := halves 2 [:: 0; 2]%N.

Lemma hole_nearest i : nearest (row i hole_X) hole_C = [set 0].
Proof.
apply/setP => j; rewrite nearest_halves all2 !inE.
by case: i => [[|[|//]] ?]; case: j => [[|[|//]] ?].
Qed.

Lemma hole_carried : carried hole_X hole_C (binary F 2 1) = halves 2 [:: 0; 0]%N.
Proof.
apply/row_matrixP => i; rewrite rowK binary2 hole_nearest mean1.
by apply/rowP => c; rewrite !mxE; case: i => [[|[|//]] ?].
Qed.

Lemma hole_moved : moved hole_X hole_C (binary F 2 1) = halves 2 [:: 0; 0]%N.
Proof.
apply/row_matrixP => j; rewrite rowK hole_carried binary2 (mean_const (v := row j (halves 2 [:: 0; 0]%N))) //.
  exact: (nonempty_nearest _ _ 0).
move=> i _; apply/rowP => c; rewrite !mxE.
by case: i => [[|[|//]] ?]; case: j => [[|[|//]] ?].
Qed.

Lemma hole_cluster j : cluster hole_X hole_C j = if j == 0 then setT else set0.
Proof.
apply/setP => i; rewrite inE /assignment hole_nearest pick2 !inE /=.
by case: j => [[|[|//]] ?]; rewrite inE.
Qed.

Lemma hole_lloyd : lloyd 1 hole_X hole_C = hole_C.
Proof.
apply/row_matrixP => j; rewrite rowK hole_cluster; case: j => [[|[|//]] p] /=; last by rewrite eqxx.
rewrite ifN; last by apply/set0Pn; exists 0; rewrite inE.
apply: mean_const => [|i _]; first by apply/set0Pn; exists 0; rewrite inE.
by apply/rowP => c; rewrite !mxE; case: i => [[|[|//]] ?].
Qed.

(* X = 0, 0 and C = 0, 1: there is no tie, Lloyd keeps 0 and 1, the layer has 0 and 0. *)
Theorem empty_cluster_counterexample : [/\ no_ties hole_X hole_C,
  lloyd 1 hole_X hole_C = halves 2 [:: 0; 2]%N,
  stacked 1 hole_X hole_C (binary F 2 1) = halves 2 [:: 0; 0]%N &
  stacked 1 hole_X hole_C (binary F 2 1) <> lloyd 1 hole_X hole_C].
Proof.
have h : distinct_codes (binary F 2 1) by exact: (@binary_distinct F 2).
have e : stacked 1 hole_X hole_C (binary F 2 1) = halves 2 [:: 0; 0]%N.
  by rewrite (stacked_closed_form 1 hole_X hole_C h) /= hole_moved.
split=> //; last first.
- by rewrite e hole_lloyd; apply: (@halves_differ _ _ _ 1).
- exact: hole_lloyd.
by move=> i j l; rewrite hole_nearest !inE => /eqP -> /eqP ->.
Qed.

End Line.
