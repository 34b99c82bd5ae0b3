"""Listings as the systems write them, each with a pinned notice 7 and a notice 6; and pieces of bad pages."""
# ruff: noqa: E501 - pages are laid out as they come

from __future__ import annotations

GNUBOARD = """<div id="bo_list"><div class="tbl_head01"><table><thead><tr><th>번호<th>제목<th>글쓴이<th>날짜</tr></thead><tbody>
<tr class="bo_notice"><td class="td_num2"><strong class="notice_icon">공지</strong></td>
 <td class="td_subject"><div class="bo_tit"><a href="/bbs/board.php?bo_table=n&amp;wr_id=7&amp;page=1">수강신청 안내
 <span class="sound_only">댓글</span><span class="cnt_cmt">3</span></a><span class="new_icon">N</span></div></td>
 <td class="td_name">학사팀</td><td class="td_num">55</td><td class="td_datetime">24-05-01</td></tr>
<tr><td>6</td><td class="td_subject"><div class="bo_tit"><a href="/bbs/board.php?bo_table=n&amp;wr_id=6">둘째</a></div></td>
 <td class="td_name">조교</td><td class="td_num">9</td><td class="td_datetime">05-19</td></tr></tbody></table></div>
<nav><a class="pg_page pg_next" href="/bbs/board.php?bo_table=n&amp;page=2">다음</a></nav></div>"""

XPRESSENGINE = """<!-- rhymix --><table class="bd_lst"><thead><tr><th>번호<th>제목</tr></thead><tbody>
<tr class="notice"><td class="no">공지</td><td class="cate">학사</td><td class="title"><a href="/n/7?mid=n&amp;document_srl=7">수강신청 안내</a>
 <span class="replyNum">2</span></td><td class="author">학사팀</td><td class="time">2024.05.01</td><td class="m_no">99</td></tr>
<tr><td class="no">6</td><td class="cate">장학</td><td class="title"><a href="/index.php?mid=n&amp;document_srl=6&amp;page=3">둘째</a></td>
 <td class="author">조교</td><td class="time">3시간 전</td><td class="m_no">4</td></tr></tbody></table><a class="next" href="?mid=n&amp;page=2">»</a>"""

K2WEB = """<table class="artclTable"><tbody>
<tr class="headline"><td class="_artclTdNum">공지</td><td class="_artclTdTitle"><a href="/bbs/cs/12/7/artclView.do;jsessionid=A1B2?layout=x">
 <strong>수강신청 안내</strong> <span class="new">새글</span></a></td><td class="_artclTdWriter">학사팀</td><td class="_artclTdRdate">2024.05.01</td></tr>
<tr><td class="_artclTdNum">6</td><td class="_artclTdTitle"><a href="/bbs/cs/12/6/artclView.do">둘째</a></td>
 <td class="_artclTdWriter">조교</td><td class="_artclTdRdate">2024.05.19</td></tr></tbody></table>
<a class="_next" href="/bbs/cs/12/artclList.do?page=2">다음</a>"""

JWXE = """<table class="board-table"><tbody>
<tr class="c-board-top-wrap"><td class="c-top">공지</td><td class="text-left"><div class="c-board-title-wrap">
 <a class="c-board-title" href="?mode=view&amp;articleNo=7&amp;article.offset=0&amp;articleLimit=10">수강신청 안내</a></div></td>
 <td>학사팀</td><td>2024.05.01</td><td>123</td></tr>
<tr><td>6</td><td><a class="c-board-title" href="?mode=view&amp;articleNo=6&amp;article.offset=0">둘째</a></td>
 <td>조교</td><td>2024.05.19</td><td>4</td></tr></tbody></table>"""

WORDPRESS = """<link href="/wp-content/x.css"><article class="post sticky"><h2 class="entry-title"><a href="/2024/05/sugang/">수강신청 안내</a></h2>
<time class="entry-date" datetime="2024-05-01T09:00:00+09:00">5월의 첫날</time><span class="author">학사팀</span></article>
<article class="post"><h2 class="entry-title"><a href="/2024/05/second/">둘째</a></h2><time class="entry-date">May 19, 2024</time>
<span class="author">조교</span></article><a class="next page-numbers" href="/page/2/">Next</a>"""

PLAIN = """<table><tr><th>번호</th><th>제목</th><th>날짜</th><th>조회</th></tr>
<tr class="notice"><td>공지</td><td><a href="view.do?seq=7">수강신청 안내</a></td><td>2024.05.01</td><td>1,033</td></tr>
<tr><td>6</td><td><a href="view.do?seq=6">둘째</a></td><td>2024.05.19</td><td>7</td></tr></table>
<div class="paging"><a rel="next" href="list?page=2">2</a></div>"""

PIECES = [
    "<table>", "<tr>", "<td>", "<a href='v?seq=1'>", "<a href='//'>", "<a href='http://[::1'>", "<a href=javascript:x>", "</a>", "</table>",
    "2024.05.01", "\x00", "&#0;", "&#xD800;", "\ufffe", "<time datetime='x'>", "<div id=bo_list>", "<tbody>", "<template>", "<svg>", "<![CDATA[", "<!--",
    "<a rel=next href='?page=2'>", "<a rel=next href='\x00'>", "<td class=title>", "<span class='new badge'>", "<plaintext>", "<b><i>", "</b>", "가나다",
]  # fmt: skip
