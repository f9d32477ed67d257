"""Small words that tell English from other languages in Latin letters; none is in both lists."""

_ENGLISH = """
a an and are as at be been but by can could did do does for from had has have he her his how i
if in into is it its of on or our she should that the their them there these they this those to
we were what when where which who whose why will with would you your not
"""

_OTHERS = """
der das und ist nicht ein eine einen einem einer eines mit auf für von dem des wie wird werden
welche welcher welches wer wo wann warum sich zu zum zur bei auch sind nach wurde kann über
le la les du une et est dans que qui pour sur avec sont pas au aux ce cette quel quelle quels
quelles comment où quand pourquoi combien il elle nous vous
el los las del y en es por con para una uno se su qué cuál cuáles cómo cuándo dónde quién
cuánto cuántos porque más
il lo gli di che è della dello dei degli delle nel nella con per sono non quale quali chi cosa
quando dove perché
o os do dos das um uma em não com são na no nas nos mais qual quais quem onde quanto
het een van niet zijn wat wie hoe waar welke voor aan bij wordt werd deze ook naar
och att det som en är på av för med till den inte vad vem hur när vilken vilket
og å ikke til fra hvad hvem hvordan hvor hvilken hva hvilke er
ja ei että oli mikä kuka missä miten kun ovat tai mutta
nie jest się na w z do że jak kto co gdzie kiedy jaki jaka jakie przez oraz był
je se že ve kdo kde jak proč nebo byl jako
și este cu pe din nu ce cine unde când pentru sau
és az egy nem hogy mi ki hol mikor van volt
ve bir bu ne kim nerede için ile nasıl hangi olarak
yang dan di itu ini dengan untuk apa siapa dari pada adalah tidak
và của là có không những được trong cho một
"""  # noqa: RUF001  # the dotless i is Turkish

ENGLISH = frozenset(_ENGLISH.split())
FOREIGN = frozenset(_OTHERS.split()) - ENGLISH
